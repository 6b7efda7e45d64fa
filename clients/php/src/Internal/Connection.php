<?php

declare(strict_types=1);

namespace Redstalk\Internal;

use Redstalk\Exception\InvalidArgumentException;
use Redstalk\Exception\UnsupportedException;

/**
 * @internal A connection to a server. Commands are pipelined; replies come in their order.
 *
 * While it is busy, a signal handler must use another connection.
 */
final class Connection
{
    public bool $busy = false;

    /** Whether it has not failed and was not closed. */
    public bool $open = true;

    /** Whether it has put a job: if its server drains, its address can lead to another one. */
    public bool $accepted = false;

    /** @var array<string, true> what the server can do beyond beanstalkd */
    public array $capabilities = [];

    /** @var array<string, ?int> the watched tubes with their weights */
    public array $watched = ['default' => null];

    private string $used = 'default';

    /** Whether the command under way has sent anything. */
    private bool $sent = false;

    private int $timeout = 0;

    /** Whether a reserve waits at the server. */
    private bool $waiting = false;

    private bool $interrupted = false;

    /** How often signal handlers run while a reserve waits, in microseconds, if none has cut the wait short. */
    private const SLICE = 250_000;

    private readonly int $process;

    /** @var list<resource> streams with TLS of a parent process: to close one would end the connection of the parent */
    private static array $inherited = [];

    /**
     * @param resource $stream
     * @param float $replyTimeout seconds
     */
    public function __construct(private $stream, public readonly string $address, private readonly float $replyTimeout)
    {
        $this->process = getmypid();
    }

    /**
     * Sends commands and returns their replies.
     *
     * @param list<Command> $commands
     * @return list<Reply>
     * @throws ConnectionLost with the replies that were read; the connection is closed
     */
    public function exchange(array $commands): array
    {
        $this->leaveToParent();
        if ($this->busy || !$this->open) {
            throw new ConnectionLost("the connection to $this->address is in use", false);
        }
        $this->busy = true;
        $out = '';
        $wait = 0;
        $uses = [];
        $used = $this->used;
        foreach ($commands as $i => $command) {
            if ($command->tube !== '' && $command->tube !== $used) {
                $out .= "use $command->tube\r\n";
                $used = $uses[$i] = $command->tube;
            }
            $out .= $command->line . "\r\n" . ($command->body === null ? '' : $command->body . "\r\n");
            $wait += $command->wait;
        }
        $replies = [];
        try {
            $this->write($out);
            $this->setTimeout($wait);
            if ($wait > 0) {
                $this->await($wait);
            }
            foreach ($commands as $i => $command) {
                if (isset($uses[$i])) {
                    $this->used = $this->acceptUse(Reply::read($this), $uses[$i]);
                }
                $replies[] = $reply = Reply::read($this);
                if (self::readsBodyAsCommands($command, $reply)) {
                    throw $this->lost("cannot go on after $reply->word");
                }
            }
        } catch (ConnectionLost $e) {
            $e->replies = $replies;
            throw $e;
        } finally {
            if (count($replies) < count($commands) || isset($e) || $this->interrupted) {
                $this->close();
            }
            $this->busy = false;
        }

        return $replies;
    }

    /** Waits until there is something to read. PHP runs signal handlers only between such waits, not while it reads. */
    private function await(int $wait): void
    {
        $this->waiting = true;
        try {
            $none = null;
            for ($end = hrtime(true) / 1e9 + $wait + $this->replyTimeout; hrtime(true) / 1e9 < $end;) {
                $read = [$this->stream];
                if (@stream_select($read, $none, $none, 0, self::SLICE) > 0) {
                    return;
                }
            }
            throw $this->lost('does not answer');
        } finally {
            $this->waiting = false;
        }
    }

    /** Makes the server end a reserve that waits, from a signal handler: it replies at once, with a job or without. */
    public function interrupt(): void
    {
        if ($this->waiting) {
            $this->interrupted = true;
            @stream_socket_shutdown($this->stream, STREAM_SHUT_WR);
        }
    }

    /**
     * Makes later reserves take from these tubes.
     *
     * @param array<string, ?int> $tubes with their weights
     * @throws ConnectionLost also if a weight has to be removed, which only a new connection can
     */
    public function watch(array $tubes): void
    {
        if ($tubes === $this->watched) {
            return;
        }
        $commands = [];
        foreach ($tubes as $tube => $weight) {
            if (!array_key_exists($tube, $this->watched) || $this->watched[$tube] !== $weight) {
                $commands[] = new Command("watch $tube" . ($weight === null ? '' : " $weight"), needs: $weight === null ? '' : 'weights');
            }
        }
        foreach (array_diff_key($this->watched, $tubes) as $tube => $_) {
            $commands[] = new Command("ignore $tube");
        }
        if (in_array(null, $tubes, true) && array_filter($this->watched) !== []) {
            $this->close();
            throw new ConnectionLost("the connection to $this->address has weights", false);
        }
        array_map($this->check(...), $commands);
        foreach ($this->exchange($commands) as $i => $reply) {
            if ($reply->word !== 'WATCHING') {
                $this->close();
                throw $reply->exception($commands[$i]->line);
            }
        }
        $this->watched = $tubes;
    }

    /**
     * Looks whether a command can be sent.
     *
     * @throws UnsupportedException if the server lacks the capability that it needs
     * @throws InvalidArgumentException
     */
    public function check(Command $command): void
    {
        if (strpbrk($command->line, "\r\n") !== false) {
            throw new InvalidArgumentException("a line break in \"$command->line\"");
        }
        if ($command->needs !== '' && !isset($this->capabilities[$command->needs])) {
            throw new UnsupportedException($command->feature(), $this->address);
        }
    }

    /** Returns the tube of later puts. After a FORBIDDEN the server refuses them. */
    private function acceptUse(Reply $reply, string $tube): string
    {
        return match ($reply->word) {
            'USING' => $tube,
            'FORBIDDEN' => '',
            default => throw $this->lost("cannot go on after $reply->word to use $tube"),
        };
    }

    /** After these replies to a put without tags the server takes the body for commands. */
    private static function readsBodyAsCommands(Command $command, Reply $reply): bool
    {
        return $command->body !== null && substr_count($command->line, ' ') === 4
            && in_array($reply->word, ['BAD_FORMAT', 'UNKNOWN_COMMAND', 'EXPECTED_CRLF'], true);
    }

    /** Whether the connection can be used: no reply is awaited, and the other side has not closed it. */
    public function usable(): bool
    {
        $this->leaveToParent();
        if ($this->busy || !$this->open) {
            return false;
        }
        $read = [$this->stream];
        $none = null;
        if (@stream_select($read, $none, $none, 0) === 0) {
            return true;
        }
        stream_set_blocking($this->stream, false);
        $data = @fread($this->stream, 1);
        if ($data !== '' || feof($this->stream)) {
            $this->close();
        } else { // a record of TLS without data
            stream_set_blocking($this->stream, true);
        }

        return $this->open;
    }

    public function close(): void
    {
        $this->leaveToParent();
        if ($this->open) {
            $this->open = false;
            @fclose($this->stream);
        }
    }

    /** Gives the connection up in a process that was forked since: replies to its parent arrive on it. */
    private function leaveToParent(): void
    {
        $this->open = $this->open && is_resource($this->stream); // or somebody else has closed it
        if ($this->open && $this->process !== getmypid()) {
            if (isset(stream_get_meta_data($this->stream)['crypto'])) {
                self::$inherited[] = $this->stream;
            }
            $this->stream = null; // closes only the descriptor of this process
            $this->open = $this->busy = false;
        }
    }

    private function write(string $out): void
    {
        $this->sent = false;
        for ($done = 0; $done < strlen($out); $done += $n) {
            $n = @fwrite($this->stream, $done === 0 ? $out : substr($out, $done));
            if ($n === false || $n === 0) {
                throw $this->lost('cannot be written to');
            }
            $this->sent = true;
        }
    }

    private function setTimeout(int $wait): void
    {
        $micros = (int) round(($this->replyTimeout + $wait) * 1e6);
        if ($micros !== $this->timeout) {
            stream_set_timeout($this->stream, intdiv($micros, 1_000_000), $micros % 1_000_000);
            $this->timeout = $micros;
        }
    }

    /** Reads a line, without CR LF. */
    public function line(): string
    {
        $line = @fgets($this->stream);
        if ($line === false || !str_ends_with($line, "\r\n")) {
            throw $this->lost(stream_get_meta_data($this->stream)['timed_out'] ? 'does not answer' : 'was lost');
        }

        return substr($line, 0, -2);
    }

    /** Reads as many bytes as the text says, and CR LF. */
    public function body(string $length): string
    {
        $n = $this->number($length);
        $body = @stream_get_contents($this->stream, $n + 2);
        if ($body === false || strlen($body) !== $n + 2 || !str_ends_with($body, "\r\n")) {
            throw $this->lost('was lost in the middle of a reply');
        }

        return substr($body, 0, -2);
    }

    /** Returns a number of a reply. */
    public function number(string $digits): int
    {
        if (!preg_match('/^\d{1,18}$/D', $digits)) {
            throw $this->lost("sent \"$digits\" for a number");
        }

        return (int) $digits;
    }

    private function lost(string $what): ConnectionLost
    {
        return new ConnectionLost("the connection to $this->address $what", $this->sent);
    }
}
