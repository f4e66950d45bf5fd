"""As meet.pl, for Python 3.4 and later."""

import os
import select
import socket
import sys
import threading
import time


def door(port):
    for family, place in ((socket.AF_INET6, "::"), (socket.AF_INET, "")):
        try:
            made = socket.socket(family, socket.SOCK_STREAM)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            made.bind((place, port))
            made.listen(128)
            return made
        except OSError:
            continue
    return None


def say(text):
    os.write(1, (text + "\n").encode())


def serve(tag, nonce, *ports):
    first = next(filter(None, map(door, map(int, ports))), None)
    if first is None:
        return say("\n%s taken" % tag)
    other = door(0)
    said = [made.getsockname()[1] if made else "-" for made in (first, other)]
    doors = [made for made in (first, other) if made]
    say("\n%s listening python3 %s %s" % (tag, said[0], said[1]))
    guests = []
    while True:
        for each in select.select(doors, [], [])[0]:
            try:
                guests = guests[-500:] + [each.accept()[0]]
                guests[-1].sendall(nonce.encode() + b"\n")
                guests[-1].shutdown(socket.SHUT_WR)
            except OSError:
                continue


def call(limit, address, port, nonce):
    said = "Connection timed out"
    deadline = time.monotonic() + limit
    for number in range(8):
        if number:
            select.select([], [], [], 0.1)
        left = deadline - time.monotonic()
        if left <= 0:
            break
        way = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        try:
            # a first packet may get lost, and the kernel takes its time for the next one
            way.settimeout(min(0.7, left))
            way.connect((address, port))
            way.settimeout(max(0.1, deadline - time.monotonic()))
            heard = b""
            piece = b"."
            while piece and len(heard) < 256:
                piece = way.recv(256)
                heard += piece
            if heard:
                return "ok" if heard == nonce.encode() + b"\n" else "somebody else answers"
            said = "no answer"
        except socket.timeout:
            said = "Connection timed out"
        except OSError as error:
            said = error.strerror or str(error)
    return said


def reach(limit, *targets):
    def one(address, port, nonce):
        say("%s %s %s" % (address, port, call(float(limit), address, int(port), nonce)))

    for target in zip(targets[::3], targets[1::3], targets[2::3]):
        threading.Thread(target=one, args=target).start()


{"listen": serve, "reach": reach}[sys.argv[1]](*sys.argv[2:])
