<?php

declare(strict_types=1);

namespace Redstalk\Tests;

/** A server process on a free port. It ends with the object. */
final class Server
{
    /** The kinds of servers that start() knows. */
    public const ENGINES = ['memory', 'embedded', 'redis', 'beanstalkd'];

    public readonly int $port;

    /** @var resource|null */
    private $process = null;

    /** @var resource|null a process that restartIn() ends, so that it is not awaited before */
    private $killed = null;

    private ?Server $redis = null;

    /** @var list<resource> those of the ports */
    private static array $locks = [];

    private string $directory = '';

    /** @param list<string> $command with {port} and {dir} */
    private function __construct(private readonly array $command)
    {
        $this->port = self::freePort();
        $this->directory = sys_get_temp_dir() . '/redstalk-php-' . getmypid() . "-$this->port";
        mkdir($this->directory);
    }

    /**
     * A port that belongs to this process until it ends, also while its server is down. The system gives higher ports
     * to outgoing connections. The UDP port with the same number, which no server here uses, is the lock that all
     * tests of this project respect.
     */
    private static function freePort(): int
    {
        while (true) {
            $port = random_int(12_000, 21_999);
            $lock = @stream_socket_server("udp://127.0.0.1:$port", $code, $message, STREAM_SERVER_BIND);
            $socket = $lock ? @stream_socket_server("tcp://127.0.0.1:$port") : false;
            if ($socket) {
                fclose($socket);
                self::$locks[] = $lock;

                return $port;
            }
        }
    }

    /** Starts a redstalkd with an engine, or beanstalkd. */
    public static function start(string $engine = 'memory', string ...$options): self
    {
        if ($engine === 'beanstalkd') {
            $server = new self(['beanstalkd', '-l', '127.0.0.1', '-p', '{port}']);
        } else {
            $redis = $engine === 'redis' ? self::startRedis() : null;
            $store = match ($engine) {
                'memory' => 'memory:',
                'embedded' => 'embedded:{dir}/data',
                'redis' => "redis://{$redis->address()}/0",
            };
            $server = new self([self::program(), '-p', '{port}', '--store', $store, ...$options]);
            $server->redis = $redis;
        }
        $server->run();

        return $server;
    }

    /** Starts another redstalkd with the same store, which is a Redis. */
    public function twin(): self
    {
        $twin = new self($this->command);
        $twin->run();

        return $twin;
    }

    public static function startRedis(): self
    {
        $server = new self(['redis-server', '--bind', '127.0.0.1', '--port', '{port}', '--save', '', '--dir', '{dir}']);
        $server->run();

        return $server;
    }

    public static function program(): string
    {
        return getenv('REDSTALKD') ?: dirname(__DIR__, 3) . '/bin/redstalkd';
    }

    public function address(): string
    {
        return "127.0.0.1:$this->port";
    }

    /** Starts the process, also again after kill(), and waits until it accepts connections. */
    public function run(): void
    {
        $command = $this->command();
        $this->process = proc_open($command, $this->streams(), $pipes);
        for ($end = microtime(true) + 20; !($socket = @stream_socket_client("tcp://{$this->address()}", $code, $message, 1)); usleep(5000)) {
            if (microtime(true) > $end || !proc_get_status($this->process)['running']) {
                throw new \RuntimeException("{$command[0]} does not listen: " . file_get_contents("$this->directory/log"));
            }
        }
        fclose($socket);
    }

    /** @return list<string> */
    private function command(): array
    {
        return str_replace(['{port}', '{dir}'], [(string) $this->port, $this->directory], $this->command);
    }

    /** @return list<list<string>> */
    private function streams(): array
    {
        $log = ['file', "$this->directory/log", 'a'];

        return [['file', '/dev/null', 'r'], $log, $log];
    }

    /** Ends the process at once. */
    public function kill(): void
    {
        if ($this->process !== null) {
            proc_terminate($this->process, SIGKILL);
            proc_close($this->process);
            $this->process = null;
        }
    }

    /** Ends the process at once after some time, and starts it again, while the test goes on. */
    public function restartIn(float $seconds): void
    {
        $pid = proc_get_status($this->process)['pid'];
        $command = implode(' ', array_map(escapeshellarg(...), $this->command()));
        $this->killed = $this->process;
        $this->process = proc_open(['sh', '-c', "sleep $seconds; kill -9 $pid; sleep 0.2; exec $command"], $this->streams(), $pipes);
    }

    /** Stops the process, and waits until all its threads stand still. */
    public function freeze(): void
    {
        proc_terminate($this->process, SIGSTOP);
        $states = '/proc/' . proc_get_status($this->process)['pid'] . '/task/*/stat';
        do {
            usleep(1000);
            $running = array_filter(glob($states), fn ($file) => !preg_match('/\) T/', (string) @file_get_contents($file)));
        } while ($running !== []);
    }

    /** Lets the process go on after freeze(). */
    public function thaw(): void
    {
        proc_terminate($this->process, SIGCONT);
    }

    public function __destruct()
    {
        $this->kill();
        $this->redis?->kill();
        $files = new \RecursiveDirectoryIterator($this->directory, \FilesystemIterator::SKIP_DOTS);
        foreach (new \RecursiveIteratorIterator($files, \RecursiveIteratorIterator::CHILD_FIRST) as $file) {
            $file->isDir() ? rmdir((string) $file) : unlink((string) $file);
        }
        rmdir($this->directory);
    }
}
