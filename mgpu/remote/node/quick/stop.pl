# stop KEY TOKEN REASON GRACE: where the command runs, its processes are told at once; the rest is the reaper's, which knows
# whom it need not tell again. False where that is for the shell.
sub stop {
    my ($key, $token, $reason, $grace) = @_;
    my $dir = "$root/$key";
    my $gate = readlink("$dir/pid") || '';
    my ($runner) = split /:/, readlink("$dir/started") || '';
    return 0 if $reason eq 'START_HANGS' || !$runner || $gate !~ /^\d+:\d+:\Q$boot:$token\E$/ || !living($gate);
    return 0 if grep { -l "$dir/$_" || -e _ } qw(exit clean reaper wake spawn tasks stdin);
    my @told = descendants($runner) or return 0;
    symlink $reason, "$dir/stop" or -l "$dir/stop" or return 0;
    symlink uptime(), "$dir/told" or -l "$dir/told" or return 0; # before the first signal: see records.sh
    return 0 if -l "$dir/exit";
    kill TERM => @told;
    watcher('reap', $token, $dir, $grace, "@told");
    return 1;
}

# by the kernel's own lists, where it has them
sub descendants {
    my @found;
    my @open = @_;
    while (defined(my $pid = shift @open)) {
        my @children = split ' ', content("/proc/$pid/task/$pid/children");
        push @found, @children;
        push @open, @children;
    }
    return @found;
}
