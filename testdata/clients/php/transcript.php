<?php
// What the programs need that print a transcript of what a framework does, to compare it between servers.

declare(strict_types=1);

const HOST = '127.0.0.1';

/** Prints a line of the transcript. */
function say(...$words): void
{
    echo implode(' ', array_map(fn ($word) => is_string($word) ? $word : json_encode($word), $words)), "\n";
}

/** Runs a part, and prints what it throws. */
function part(string $name, callable $run): void
{
    say('---', $name);
    tries('it', $run);
}

/** Prints whether something works, or what it throws: without numbers, as ids and addresses differ. */
function tries(string $what, callable $run): bool
{
    try {
        $run();
    } catch (Throwable $e) {
        say($what, 'throws', get_class($e), withoutNumbers($e->getMessage()));
        return false;
    }
    return true;
}

function withoutNumbers(string $text): string
{
    return preg_replace('/[0-9a-f]{8}-[0-9a-f-]{27}|\d+(\.\d+){3}:\d+|\d+/', 'N', $text);
}

/** Sends commands on a connection of its own, and returns the reply to the last one, with its page or body. */
function ask(string ...$commands): string
{
    global $port;
    $server = stream_socket_client("tcp://" . HOST . ":$port");
    foreach ($commands as $command) {
        fwrite($server, "$command\r\n");
        $reply = rtrim(fgets($server));
        if (preg_match('/^(?:OK|FOUND \d+|RESERVED \d+) (\d+)$/', $reply, $size)) {
            $reply .= "\n" . stream_get_contents($server, $size[1] + 2);
        }
    }
    return $reply;
}

/** A value of the page that the command asks for, or the reply if it is no page. */
function figure(string $command, string $key): string
{
    return preg_match("/^$key: (.*)$/m", $page = ask($command), $value) ? $value[1] : $page;
}

/** Calls something until it returns what is true, for $seconds at most, and returns that. */
function await(callable $get, float $seconds = 30)
{
    for ($end = microtime(true) + $seconds; !($got = $get()) && microtime(true) < $end;) {
        usleep(50000);
    }
    return $got;
}

/** Requests a restart of the server: politely the first, third, ... time, by force the second, fourth, ... one. */
function restart(): void
{
    echo "restart\n";
    fgets(STDIN) !== false || exit(1);
}
