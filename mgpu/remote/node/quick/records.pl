# What the kernel tells, and what is written down, as job/records.sh has it.

sub uptime { return (split ' ', content('/proc/uptime'))[0] }

# of something in /proc
sub content {
    my ($path) = @_;
    sysopen my $file, $path, O_RDONLY or return '';
    my $all = '';
    while (sysread $file, $all, 65536, length $all) { }
    return $all;
}

# a process's state, session and start in ticks since the boot
sub state_of {
    my ($pid) = @_;
    my $stat = content("/proc/$pid/stat");
    my @fields = split ' ', substr $stat, rindex($stat, ')') + 1;
    return @fields[0, 3, 19];
}

# whether the process that a record PID:TICKS:... names is still that one
sub living {
    my ($pid, $ticks) = ($_[0] =~ /^(\d+):(\d+)/) or return 0;
    my ($state, undef, $began) = state_of($pid);
    return defined $began && $began eq $ticks && $state !~ /[ZX]/ ? $pid : 0;
}

# the number that the kernel gave out last
sub newest { return (split ' ', content('/proc/loadavg'))[-1] }

# how many it has given out since the boot
sub given_out { return content('/proc/stat') =~ /^processes (\d+)$/m ? $1 : 0 }

# whether the kernel tells these two; in some containers there are other files in their place
sub numbers_are_told {
    for (1 .. 3) {
        my $before = given_out();
        defined(my $child = fork) or return 0;
        POSIX::_exit(0) unless $child;
        my $told = newest();
        waitpid $child, 0;
        return 1 if $told == $child && $before && given_out() > $before;
    }
    return 0;
}

# a file of this text; in place if there is none yet, else of what is there, as a whole
sub put {
    my ($path, $text) = @_;
    my $made = $path;
    my $file;
    if (!sysopen $file, $made, O_WRONLY | O_CREAT | O_EXCL, 0600) {
        $made = "$path.$$";
        sysopen $file, $made, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600 or return 0;
    }
    my $size = syswrite $file, $text;
    my $whole = defined $size && $size == length $text && close $file;
    return 1 if $whole && ($made eq $path || rename $made, $path);
    unlink $made;
    return 0;
}

sub event {
    my ($dir, $text) = @_;
    my ($above, $key) = $dir =~ m{^(.*)/(.*)$}s;
    return if -p "$above/events";
    sysopen my $file, "$above/events", O_WRONLY | O_CREAT | O_APPEND, 0600 or return;
    syswrite $file, "$key $text\n";
}

sub step {
    my ($dir, $text) = @_;
    sysopen my $file, "$dir/step", O_WRONLY | O_CREAT | O_TRUNC, 0600 or return;
    syswrite $file, $text;
}

sub oom_kills {
    my $kills = 0;
    for (split /\n/, content('/proc/self/cgroup')) {
        my (undef, $kind, $group) = split /:/, $_, 3;
        my $counter = $kind eq '' ? "/sys/fs/cgroup$group/memory.events"
            : $kind eq 'memory' ? "/sys/fs/cgroup/memory$group/memory.oom_control" : next;
        $kills += $_ for content($counter) =~ /^oom_kill (\d+)$/mg;
    }
    return $kills;
}
