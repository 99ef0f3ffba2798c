#!/usr/bin/env python3
"""Load test of `conifer serve`. Each client sends text queries and sends the next one as soon as it has received the
response.

    python3 bench/serve_load.py http://127.0.0.1:7878 --seconds 60 --clients 32 --pid PID

Prints the number of requests, errors by status and percentiles of the latency in milliseconds. With --pid it also
prints the resident memory of the server: at the beginning, maximum, and at the end. Needs only Python 3.9.
"""
import argparse
import asyncio
import collections
import json
import random
import time
from urllib.parse import urlsplit

WORDS = ("red green blue small large old wooden shiny dog cat horse car bus boat tree flower cake house child woman man "
         "street field river snow beach kitchen table window running sitting eating holding above below beside").split()


def text(dice):
    return "a " + " ".join(dice.choice(WORDS) for _ in range(dice.randint(2, 12)))


def rss(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmRSS"))


async def exchange(reader, writer, host, body):
    writer.write(f"POST /api/search HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = next(int(line.split(":")[1]) for line in head.split("\r\n") if line.startswith("content-length"))
    await reader.readexactly(length)
    return int(head.split(" ")[1])


async def client(seed, url, end, k, times, errors):
    dice, stream = random.Random(seed), None
    while time.monotonic() < end:
        body = json.dumps({"query": {"text": text(dice)}, "k": k}).encode()
        begun = time.monotonic()
        try:
            if stream is None:
                stream = await asyncio.open_connection(url.hostname, url.port)
            status = await exchange(*stream, url.netloc, body)
        except (OSError, asyncio.IncompleteReadError) as error:
            errors[type(error).__name__] += 1
            stream = None
            continue
        times.append(time.monotonic() - begun)
        if status != 200:
            errors[status] += 1


async def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--pid", type=int)
    args = parser.parse_args()
    url, times, errors, memory = urlsplit(args.url), [], collections.Counter(), []
    begun = time.monotonic()
    end = begun + args.seconds
    tasks = [asyncio.create_task(client(seed, url, end, args.k, times, errors)) for seed in range(args.clients)]
    while args.pid and time.monotonic() < end:
        memory.append(rss(args.pid))
        await asyncio.sleep(min(1.0, max(0.0, end - time.monotonic())))
    await asyncio.gather(*tasks)
    times.sort()
    at = lambda share: round(1e3 * times[min(len(times) - 1, int(share * len(times)))], 2)
    report = {
        "clients": args.clients, "seconds": args.seconds, "requests": len(times),
        "per_second": round(len(times) / (time.monotonic() - begun), 1),
        "errors": dict(errors), "p50_ms": at(0.5), "p90_ms": at(0.9), "p99_ms": at(0.99), "max_ms": at(1.0),
        "p99_over_p50": round(at(0.99) / at(0.5), 2),
    }
    if memory:
        report["rss_mib"] = {"first": memory[0], "most": max(memory), "last": memory[-1]}
    print(json.dumps(report))


asyncio.run(main())
