# start KEY TOKEN UUIDS GANG SHELL MODE WORKDIR OUT ERR LIMIT SCRIPT JOB APPEND SIGNAL BIN INPUT PORT
sub start {
    my ($key, $token, $uuids, $gang, $shell, $mode, $workdir, $out, $err, $limit, $script, $job, $append, $signal, $bin,
        $stdin, $port) = @_;
    $script = text($script);
    $job = $job eq '-' ? undef : text($job);
    my $dir = "$root/$key";
    return answer('declined') if $stdin ne '-' || !(mkdir($dir) || -d $dir);
    my $gate = readlink "$dir/pid";
    return answer('already', $gate) if defined $gate;
    return answer('declined') unless write_files($dir, $script, $job, $bin);
    symlink 1, "$dir/append" if $append ne '0';
    symlink $signal, "$dir/signal" if $signal ne '-';
    $workdir = decoded($workdir);
    $workdir =~ s/^~(?=\/|$)/$home/;
    ($out, $err) = (decoded($out), decoded($err));
    my $straight = $gang eq '0' && $port eq '-' && $out eq '' && $err eq '' && $mode !~ /^tree:/;
    my @words = ($dir, $uuids, $gang, $shell, $mode, $workdir, $out, $err, $limit, $stdin, $port);
    defined(my $child = fork) or return answer('declined');
    supervise($key, $token, $straight, @words) unless $child;
    answer('ok');
}

sub write_files {
    my ($dir, $script, $job, $bin) = @_;
    if ($bin ne '0') {
        return 0 unless -x "$root/bin.$bin/scontrol" && (-l "$dir/bin" || symlink "../bin.$bin", "$dir/bin");
    }
    !defined $job or put("$dir/job", $job) or return 0;
    for ("$dir/stdout", "$dir/stderr") {
        sysopen my $file, $_, O_WRONLY | O_CREAT, 0600 or return 0;
    }
    return put("$dir/script", "$given{STREAMS}$script");
}

# clean KEY...: false where that is for the shell
sub clean {
    my @keys = @_;
    # what is old is looked for by the shell, now and then
    if (time - $forgot > 3600) {
        $forgot = time;
        return 0;
    }
    for my $key (@keys) {
        my $dir = "$root/$key";
        return 0 if grep { -l "$dir/$_" || -e _ } qw(work spawn);
        opendir my $names, $dir or next;
        for (grep { /^(?:script|job|stdout|stderr|signal)|^(?:$records)$/ } readdir $names) {
            unlink "$dir/$_" or return 0;
        }
        unlink "$dir/bin" or !-l "$dir/bin" && !-e _ or return 0;
    }
    return 1;
}
