# state KEY...: as in orders.sh; nothing where a job asks for something on other nodes, which the shell tells.
sub standing {
    my @keys = @_;
    return if grep { -d "$root/$_/spawn" } @keys;
    my $told = '';
    # gates and who lives first: what these two have written when they are gone is there for the second look
    for my $key (@keys) {
        my $gate = readlink "$root/$key/pid";
        next unless defined $gate;
        $told .= "$key pid $gate\n";
        $told .= "$key alive 1\n" if living($gate);
    }
    for my $key (@keys) {
        my $dir = "$root/$key";
        for my $name (qw(ready go started stop exit clean stuck deadline)) {
            my $value = readlink "$dir/$name";
            $told .= "$key $name $value\n" if defined $value;
        }
        my @sizes = sizes($dir);
        $told .= "$key size @sizes\n" if -f "$dir/stdout" && @sizes;
        $told .= "$key step " . at_step($dir) . "\n" unless -l "$dir/started";
    }
    return $told;
}

# how much this attempt has written to stdout and stderr; nothing where a file is gone
sub sizes {
    my ($dir) = @_;
    my $recorded = readlink "$dir/sizes";
    return split /,/, $recorded if defined $recorded;
    my @sizes;
    for ('stdout', 'stderr') {
        my $size = (stat "$dir/$_")[7];
        return unless defined $size;
        my $base = readlink("$dir/$_.base") || 0;
        push @sizes, $size > $base ? $size - $base : 0;
    }
    return @sizes;
}

sub at_step {
    my ($dir) = @_;
    my $text = '';
    if (-f "$dir/step" && sysopen my $file, "$dir/step", O_RDONLY | O_NONBLOCK) { sysread $file, $text, 1000 }
    return (split /\n/, $text)[0] || '';
}
