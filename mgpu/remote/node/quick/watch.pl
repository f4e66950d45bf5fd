# The supervisor, as watch/supervisor.sh is; it also waits for the command and writes down its exit, as the runner does there.

# goes on as a shell, at this function; `env` are what it is given besides, and which of what was given here
sub become {
    my ($function, $name, $env, @words) = @_;
    my %values = (%given, %$env);
    $ENV{"MGPU_$_"} = $values{$_} for keys %values;
    delete $ENV{MGPU_STREAMS};
    $ENV{LC_ALL} = 'C';
    $SIG{$_} = sub { } for qw(TERM INT HUP QUIT USR1 USR2); # what came meanwhile is not for the shell
    signals_blocked();
    exec 'sh', '-c', "eval \"\$MGPU_P;\$MGPU_WATCH\"; $function \"\$@\"", $name, @words or POSIX::_exit(127);
}

sub onto {
    my ($from, @to) = @_;
    POSIX::dup2($from, $_) for @to;
}

sub signals_blocked { POSIX::sigprocmask(POSIX::SIG_SETMASK, POSIX::SigSet->new(@_)) }

# stdin is empty, and what is said is for nobody
sub without_streams {
    open my $nothing, '<', '/dev/null' or POSIX::_exit(1);
    open my $nowhere, '>', '/dev/null' or POSIX::_exit(1);
    onto(fileno $nothing, 0);
    onto(fileno $nowhere, 1, 2);
}

sub supervise {
    my ($key, $token, $straight, @words) = @_;
    my ($dir, $limit) = @words[0, 8];
    my $name = "mgpu-job-$key";
    my %env = (TOKEN => $token);
    $SIG{CHLD} = 'DEFAULT';
    signals_blocked(1 .. 31); # whatever a job sends to its parent, or to all of its group
    POSIX::setsid();
    without_streams();
    $0 = $name;
    become('supervise', $name, \%env, @words) unless $straight;

    my ($ticks) = (state_of($$))[2];
    my $gate = "$$:$ticks:$boot";
    symlink "$gate:$token", "$dir/pid" or POSIX::_exit(0);
    my $before = given_out();
    $env{GATE} = $gate;
    sysopen my $place, $dir, O_RDONLY or become('take_over', $name, \%env, @words);
    onto(fileno $place, 9);
    watcher('timer', $token, $dir) if $limit ne '-';
    pipe my $said, my $says or become('take_over', $name, \%env, @words);
    my $kills = oom_kills();
    my $runner = fork;
    become('take_over', $name, \%env, @words) unless defined $runner;
    run($gate, $token, fileno $says, @words) unless $runner;
    close $says;
    my $exit = ''; # `=`: it has become the command; else the exit that a shell in its place tells
    while (1) {
        my $size = sysread $said, $exit, 4096, length $exit;
        last if defined $size ? !$size : $! != POSIX::EINTR;
    }
    1 while waitpid($runner, 0) < 0 && $! == POSIX::EINTR;
    my $status = $?;
    $exit = exit_of($dir, $status, $kills) if $exit eq '=';
    # of a lease that is not to be had the shell says why
    become('take_over', $name, \%env, @words) if $status >> 8 == 75 && !-l "$dir/exit" && !-l "$dir/started";
    undef $place;
    POSIX::close(9);
    wind_up($dir, $token, $before, $exit) or become('wind_up_of', $name, \%env, $dir, $exit);
    POSIX::_exit(0);
}

# the exit record of a command that has ended; behind it a ? where it could not be made
sub exit_of {
    my ($dir, $status, $kills) = @_;
    my $code = $status & 127 ? 128 + ($status & 127) : $status >> 8;
    symlink 'OOM', "$dir/stop" if $code == 137 && oom_kills() > $kills;
    my $exit = "$code:" . uptime();
    return symlink($exit, "$dir/exit") ? $exit : "$exit?";
}

# watcher timer|reap TOKEN DIR [WORD...]: the shell's, in a session of its own, and nobody's child: those of a supervisor are
# the job's
sub watcher {
    my ($function, $token, @words) = @_;
    defined(my $child = fork) or return;
    if ($child) {
        waitpid $child, 0;
        return;
    }
    $SIG{CHLD} = 'DEFAULT';
    POSIX::_exit(0) if fork;
    without_streams();
    POSIX::close(9);
    POSIX::setsid();
    become("tools; $function", "mgpu-$function", { KEY => $token }, @words);
}

# the last word about an attempt of which nothing is left; false: that is for the shell to say
sub wind_up {
    my ($dir, $token, $before, $exit) = @_;
    my $timer = living(readlink("$dir/timer") || '');
    kill TERM => $timer if $timer;
    return 0 unless $exit =~ /^\d+:[\d.]+$/ && nothing_left($dir, $token, $before);
    my $why = readlink "$dir/stop";
    my $told = -l "$dir/told";
    # what was to end it came too late, where no signal was sent before
    return 0 if defined $why ? !$told || $why =~ /^(?:OOM|REQUEUE|PORT)$/ : $told || -e "$dir/stop";
    return 0 if grep { -l "$dir/$_" || !-f _ } qw(stdout stderr);
    my $sizes = join ',', sizes($dir);
    symlink uptime() . (defined $why ? '' : ':own'), "$dir/clean" or return 0;
    event($dir, 'ended ' . (defined $why ? $why : '=') . " $sizes, $exit");
    return 1;
}

# as `newborn` and `members` do, of what began on this machine since this process did. The numbers have not gone round while
# fewer were given out than there are
sub nothing_left {
    my ($dir, $token, $before) = @_;
    return 0 unless $numbered && chdir $dir;
    my $place = POSIX::getcwd();
    my $seen = $$;
    for (1 .. 4) {
        my $last = newest();
        return 0 if $last < $seen || $last > $seen + 5000 || given_out() - $before > $given{MOST} / 2;
        for my $pid ($seen + 1 .. $last) {
            return 0 if -d "/proc/$pid" && is_member($pid, $token, $place);
        }
        $seen = $last;
        return 1 if newest() == $last;
    }
    return 0;
}

sub is_member {
    my ($pid, $token, $place) = @_;
    my ($state, $session) = state_of($pid);
    return 0 if !defined $state || $state =~ /[ZX]/;
    return 1 if $session == $$ || content("/proc/$pid/environ") =~ /(?:^|\0)MGPU_TOKEN=\Q$token\E\0/;
    # one that was inherited: see ending.sh
    return 0 unless (readlink("/proc/$pid/fd/9") || '') eq $place;
    my ($flags) = (content("/proc/$pid/fdinfo/9") =~ /^flags:\s*([0-7]+)/m);
    return !(defined $flags && oct($flags) & 02000000);
}
