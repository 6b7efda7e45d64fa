<?php

declare(strict_types=1);

namespace Redstalk\Tests;

/** A process with a worker on the tube "t" of a server. It ends with the object. */
final class WorkerProcess
{
    /** @var resource */
    private $process;

    private readonly string $file;

    private int $status = -1;

    /**
     * @param string $handler PHP code of a handler of $job, which can write lines with say()
     * @param string $options more arguments of the worker
     * @param string $php options of php
     */
    public function __construct(Server $server, string $handler, string $options = '', string $php = '')
    {
        $this->file = tempnam(sys_get_temp_dir(), 'redstalk-php-worker');
        $bootstrap = var_export(__DIR__ . '/bootstrap.php', true);
        file_put_contents("$this->file.php", <<<PHP
            <?php
            require $bootstrap;
            use Redstalk\\{Cancelled, Client, NotFinished, PutOptions, Skip, Snooze, Worker, WorkerJob};
            function say(string \$line): void { file_put_contents('$this->file', "\$line\\n", FILE_APPEND); }
            \$client = new Client('{$server->address()}', timeout: 20);
            \$worker = new Worker(\$client, 't', $options);
            \$worker->tube('t', function (WorkerJob \$job) use (\$client, \$worker) { $handler });
            say('starts');
            \$worker->run();
            say('ends');
            PHP);
        $log = ['file', "$this->file.log", 'a'];
        $this->process = proc_open('exec ' . PHP_BINARY . " $php $this->file.php", [['file', '/dev/null', 'r'], $log, $log], $pipes);
        $this->await('starts');
    }

    /** Waits for a line of the process. */
    public function await(string $line): void
    {
        for ($end = microtime(true) + 30; !in_array($line, $this->lines(), true); usleep(5000)) {
            if (microtime(true) > $end) {
                throw new \RuntimeException("no line \"$line\": " . file_get_contents($this->file) . $this->log());
            }
        }
    }

    /** Waits for a text in the log. */
    public function awaitLog(string $text): void
    {
        for ($end = microtime(true) + 30; !str_contains($this->log(), $text); usleep(5000)) {
            if (microtime(true) > $end) {
                throw new \RuntimeException("not logged: \"$text\", but " . $this->log());
            }
        }
    }

    /** Waits until the process handles a signal, which would end it before. */
    public function awaitHandled(int $signal): void
    {
        $status = '/proc/' . proc_get_status($this->process)['pid'] . '/status';
        for ($end = microtime(true) + 30; microtime(true) < $end; usleep(2000)) {
            preg_match('/^SigCgt:\s+[0-9a-f]*([0-9a-f]{8})$/m', file_get_contents($status), $match);
            if (hexdec($match[1]) >> $signal - 1 & 1) {
                return;
            }
        }
        throw new \RuntimeException("signal $signal is not handled: " . $this->log());
    }

    /** @return list<string> */
    public function lines(): array
    {
        return file($this->file, FILE_IGNORE_NEW_LINES);
    }

    public function log(): string
    {
        return (string) @file_get_contents("$this->file.log");
    }

    public function signal(int $signal): void
    {
        proc_terminate($this->process, $signal);
    }

    /** Sends a signal and waits for the end. Returns the seconds that took. */
    public function stop(int $signal = SIGTERM): float
    {
        $begin = microtime(true);
        $this->signal($signal);
        $this->status();

        return microtime(true) - $begin;
    }

    /** Waits for the end, and returns the exit code; 128 and a number if a signal has ended it. */
    public function status(): int
    {
        for ($end = microtime(true) + 60; $this->status < 0; usleep(2000)) {
            $now = proc_get_status($this->process);
            if (!$now['running']) {
                $this->status = $now['signaled'] ? 128 + $now['termsig'] : $now['exitcode'];
            } elseif (microtime(true) > $end) {
                throw new \RuntimeException('the worker does not end: ' . $this->log());
            }
        }

        return $this->status;
    }

    public function __destruct()
    {
        proc_terminate($this->process, SIGKILL);
        proc_close($this->process);
        array_map(fn ($file) => @unlink($file), [$this->file, "$this->file.php", "$this->file.log"]);
    }
}
