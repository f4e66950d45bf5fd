# The runner, as job/runner.sh is, but that it becomes the command: whoever watches over the job waits for that itself.

# run GATE TOKEN SAYS DIR UUIDS ...: never comes back
sub run {
    my ($gate, $token, $says, @words) = @_;
    my ($dir, $uuids, $shell, $mode, $workdir, $limit) = @words[0, 1, 3, 4, 5, 8];
    onto($says, 1);
    onto(0, 3 .. 6); # so that no lease is there
    my @leases = leases($uuids);
    my $by_shell = sub { become('run', 'mgpu-run', { TOKEN => $token, GATE => $gate }, @words) };
    step($dir, "entering the working directory $workdir");
    my $notice = enter($mode, $workdir) or $by_shell->();
    step($dir, 'starting');
    my $tool = tool($shell) || tool('sh');
    umask oct $given{MASK};
    for ([3, 'stdout'], [4, 'stderr']) {
        sysopen my $file, "$dir/$_->[1]", O_WRONLY | O_CREAT | O_TRUNC | O_APPEND or $by_shell->();
        onto(fileno $file, $_->[0]);
    }
    $by_shell->() if -l "$dir/stop" || grep { !in_place($_) } @leases;
    my $uptime = uptime();
    symlink int($uptime) + $limit + 1, "$dir/deadline" if $limit ne '-';
    my ($supervisor) = split /:/, $gate; # not getppid: if that was killed just now it is init
    symlink "$supervisor:$uptime:$notice", "$dir/started" or $by_shell->();
    symlink $uptime, "$dir/told" if -l "$dir/stop"; # its TERM may wait for us already
    event($dir, "started $uptime $notice $gate");
    syswrite STDOUT, '=';
    POSIX::close($_) for 5, 6;
    onto(0, 1);
    $ENV{MGPU_TOKEN} = $token;
    $ENV{LC_ALL} = $given{LOCALE} if $given{LOCALE} ne '';
    signals_blocked(); # what came since `started` is meant for the command
    exec $tool, "$dir/script" or POSIX::_exit(127);
}

# all of them, locked, as [file, path]; else it ends as flock would
sub leases {
    my @held;
    for my $uuid (grep { $_ ne '-' } split /,/, $_[0]) {
        my $path = "/tmp/mgpu.lease.$uuid";
        chmod 0755, $path if mkdir $path;
        POSIX::_exit(75) if -l $path || !-d _;
        sysopen my $file, $path, O_RDONLY or POSIX::_exit(75);
        flock $file, LOCK_EX | LOCK_NB or POSIX::_exit(75);
        fcntl $file, F_SETFD, 0; # the job's too
        push @held, [$file, $path];
    }
    return @held;
}

# what was locked still has its name, also if somebody cleaned up just then
sub in_place {
    my ($file, $path) = @{ $_[0] };
    my @ours = stat $file;
    my @there = lstat $path;
    return @there && "@ours[0, 1]" eq "@there[0, 1]";
}

# the notice; nothing where it cannot be entered
sub enter {
    my ($mode, $workdir) = @_;
    my $notice = '-';
    if ($workdir eq '' || !(($mode eq 'must' || -d $workdir) && chdir $workdir)) {
        return if $workdir ne '' && $mode eq 'must';
        $notice = 'home' if $workdir ne '';
        $workdir = $home;
        chdir $workdir or return;
    }
    # by the name that was given: it may lead through links
    delete $ENV{PWD};
    $ENV{PWD} = $workdir if $workdir =~ m{^/} && $workdir !~ m{//|/\.\.?(/|$)|./$};
    return $notice;
}

sub tool {
    my ($name) = @_;
    for (split /:/, $ENV{PATH}) {
        return "$_/$name" if -f "$_/$name" && -x _;
    }
    return;
}
