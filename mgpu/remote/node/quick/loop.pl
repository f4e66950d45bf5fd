# The quick half: starts and stops jobs, tells how they stand and cleans up after them as start.sh, supervisor.sh, runner.sh
# and orders.sh do, with the same records, but without a program for each step: a job costs its node half of that, or less.
#
# It knows the straight way alone. Whatever is not that (a job of several nodes, a terminal, a lease that is taken, a
# directory that cannot be entered, something that is left at the end) it hands to the shell's functions, which can go on
# at each of these places: a request by the answer `declined`, a job by becoming a shell.
#
# Sent over a channel to a shell that serves, which becomes this (see `op_quick`). Needs the core modules Fcntl and POSIX.

use strict;
use Fcntl qw(:DEFAULT :flock);
use POSIX ();

my ($mark, $id, $root, $home, $boot) = @ARGV;
my %given; # not by `map`: what is deleted in a list stays in the environment of what is run, up to perl 5.36 at least
$given{$_} = delete $ENV{"MGPU_$_"} for qw(P WATCH MASK NOFORK LOCALE MOST STREAMS);
delete $ENV{$_} for qw(LC_ALL LD_BIND_NOW);
$ENV{ substr $_, 8 } = delete $ENV{$_} for grep { /^MGPU_AS_/ } keys %ENV; # what is set for perl, and is not for this one
umask 077;
$0 = 'mgpu-quick';
my $numbered = numbers_are_told();
my $forgot = 0;
my $input = '';
my $records = join '|', qw(append sizes step ready go started deadline timer stop told reaper stuck stdin eof fed pump tty
    wake tasks failed);
answer('ok');
$SIG{CHLD} = sub { 1 while waitpid(-1, POSIX::WNOHANG) > 0 };

while (defined(my $line = next_line())) {
    my @words = split ' ', $line;
    next if @words < 2;
    ($id, my $operation) = splice @words, 0, 2;
    if    ($operation eq 'start') { start(@words) }
    elsif ($operation eq 'clean') { answer(clean(@words) ? 'ok' : 'declined') }
    elsif ($operation eq 'state') { answer_standing(@words) }
    elsif ($operation eq 'stop')  { answer(stop(@words) ? ('ok', 'stopping') : 'declined') }
    else                          { answer('failed', 'unknown', $operation) }
}
exit;

sub fill {
    while (1) {
        my $size = sysread STDIN, $input, 65536, length $input;
        return $size if $size;
        exit unless !defined $size && $! == POSIX::EINTR;
    }
}

sub next_line {
    my $end;
    fill() while ($end = index $input, "\n") < 0;
    my $line = substr $input, 0, $end + 1, '';
    chomp $line;
    return $line;
}

# the bytes of a word, whether they are in it or behind the request
sub text {
    my ($word) = @_;
    return decoded($word) unless $word =~ /^\@(\d+)$/;
    fill() while length $input < $1 + 2;
    my $text = substr $input, 0, $1, '';
    exit 1 unless substr($input, 0, 2, '') eq ".\n"; # cut off in the middle
    return $text;
}

sub decoded {
    my ($word) = @_;
    return '' if $word eq '-';
    my %letter = (n => "\n", t => "\t", '\\' => '\\');
    $word =~ s/\\(?:0([0-7]{1,3})|([nt\\]))/defined $1 ? chr oct $1 : $letter{$2}/ge;
    return $word;
}

sub answer { put_out("\n$mark $id end @_\n") }

sub answer_standing {
    my $told = standing(@_);
    defined $told ? put_out("$told\n$mark $id end ok " . uptime() . " $boot\n") : answer('declined');
}

sub put_out {
    my ($said) = @_;
    while (length $said) {
        my $size = syswrite STDOUT, $said;
        if (defined $size) { substr $said, 0, $size, '' }
        elsif ($! != POSIX::EINTR) { exit }
    }
}
