# Where ports are listened at and reached with perl; meet.py is the same in Python.
#   listen TAG NONCE PORT...                 at the first that is free and at any other: whoever connects is told NONCE
#   reach LIMIT_S [ADDRESS PORT NONCE]...    a line `ADDRESS PORT ok` for each, or what went wrong in place of that
use strict;
use Socket qw(:all);
$| = 1;

sub door {
    my ($port) = @_;
    for my $family (AF_INET6, AF_INET) {
        socket(my $door, $family, SOCK_STREAM, 0) or next;
        setsockopt($door, SOL_SOCKET, SO_REUSEADDR, 1);
        setsockopt($door, IPPROTO_IPV6, IPV6_V6ONLY, 0) if $family == AF_INET6;
        my $place = $family == AF_INET6 ? pack_sockaddr_in6($port, IN6ADDR_ANY) : pack_sockaddr_in($port, INADDR_ANY);
        return $door if bind($door, $place) && listen($door, 128);
    }
    return undef;
}

sub port_of {
    my $place = getsockname($_[0]);
    return (sockaddr_family($place) == AF_INET6 ? unpack_sockaddr_in6($place) : unpack_sockaddr_in($place))[0];
}

sub serve {
    my ($tag, $nonce, @ports) = @_;
    my ($first, @open);
    for my $port (@ports) { last if $first = door($port); }
    if (!$first) { print "\n$tag taken\n"; return; }
    my $other = door(0);
    print "\n$tag listening perl ", port_of($first), ' ', ($other ? port_of($other) : '-'), "\n";
    my @doors = grep { $_ } ($first, $other);
    $SIG{PIPE} = 'IGNORE';
    while (1) {
        my $ready = '';
        vec($ready, fileno($_), 1) = 1 for @doors;
        select($ready, undef, undef, undef) > 0 or next;
        for my $door (grep { vec($ready, fileno($_), 1) } @doors) {
            accept(my $guest, $door) or next;
            syswrite($guest, "$nonce\n");
            shutdown($guest, 1);
            push @open, $guest;
            shift @open if @open > 500;
        }
    }
}

sub call {
    my ($limit, $address, $port, $nonce) = @_;
    my ($error, $found) = getaddrinfo($address, $port, { flags => AI_NUMERICHOST, socktype => SOCK_STREAM });
    return "$error" if $error;
    my $said = '';
    local $SIG{ALRM} = sub { die "Connection timed out\n" };
    alarm $limit;
    eval {
        for my $try (1 .. 8) {    # nc listens anew after each
            select(undef, undef, undef, 0.1) if $try > 1;
            socket(my $way, $found->{family}, SOCK_STREAM, 0) or die "$!\n";
            # a first packet may get lost, and the kernel takes its time for the next one
            setsockopt($way, SOL_SOCKET, SO_SNDTIMEO, pack('l!l!', 0, 700_000));
            if (!connect($way, $found->{addr})) {
                $said = "$!";
                $said = 'Connection timed out' if $said =~ /in progress/;
                next;
            }
            my $heard = '';
            1 while sysread($way, $heard, 256, length $heard) && length $heard < 256;
            $said = $heard eq "$nonce\n" ? 'ok' : $heard eq '' ? 'no answer' : 'somebody else answers';
            last if $heard ne '';
        }
    };
    alarm 0;
    return $@ ? $@ =~ s/\n//r : $said;
}

sub reach {
    my ($limit, @targets) = @_;
    while (my ($address, $port, $nonce) = splice @targets, 0, 3) {
        my $child = fork;
        next if $child;
        syswrite(STDOUT, "$address $port " . call($limit, $address, $port, $nonce) . "\n");
        exit if defined $child;
    }
    1 while wait > 0;
}

my $act = shift @ARGV;
$act eq 'listen' ? serve(@ARGV) : reach(@ARGV);
