<?php

declare(strict_types=1);

namespace Redstalk\Tests;

use PHPUnit\Framework\TestCase;
use Redstalk\Tests\Laravel\App;

/** The examples of README.md run as they are, but for the port. */
final class ReadmeTest extends TestCase
{
    private string $directory;

    protected function setUp(): void
    {
        $this->directory = sys_get_temp_dir() . '/redstalk-php-readme-' . getmypid();
        mkdir($this->directory);
    }

    protected function tearDown(): void
    {
        exec('rm -rf ' . escapeshellarg($this->directory));
    }

    /** Returns the first example that contains a text. */
    private static function example(string $text, Server $server): string
    {
        preg_match_all('/^```(?:php|yaml)\n(.*?)^```$/ms', file_get_contents(__DIR__ . '/../README.md'), $found);
        foreach ($found[1] as $example) {
            if (str_contains($example, $text)) {
                return str_replace('127.0.0.1:11300', $server->address(), $example);
            }
        }
        self::fail("no example with $text");
    }

    /** Writes a file below the directory. */
    private function write(string $file, string $content): void
    {
        @mkdir(dirname("$this->directory/$file"), recursive: true);
        file_put_contents("$this->directory/$file", $content);
    }

    /** Runs PHP in the directory, and returns its output. */
    private static function php(string $directory, string $arguments): string
    {
        exec('cd ' . escapeshellarg($directory) . ' && QUEUE_CONNECTION=redstalk ' . PHP_BINARY . " $arguments 2>&1", $lines, $status);
        self::assertSame(0, $status, implode("\n", $lines));

        return implode("\n", $lines);
    }

    private static function bootstrap(): string
    {
        return 'require ' . var_export(__DIR__ . '/bootstrap.php', true) . ';';
    }

    public function testPlain(): void
    {
        $server = Server::start();
        $this->write('vendor/autoload.php', '<?php ' . self::bootstrap());
        $example = self::example('Client(', $server);
        self::assertLessThan(12, count(array_filter(explode("\n", $example))), 'lines of code');
        $this->write('example.php', "<?php\n$example");
        $output = "$this->directory/output";
        $process = proc_open(['php', "$this->directory/example.php"], [1 => ['file', $output, 'a'], 2 => ['file', $output, 'a']], $pipes, $this->directory);
        for ($end = microtime(true) + 20; file_get_contents($output) === '' && microtime(true) < $end; usleep(10_000));
        proc_terminate($process, SIGTERM);
        for ($end = microtime(true) + 2; ($status = proc_get_status($process))['running'] && microtime(true) < $end; usleep(10_000));
        proc_terminate($process, SIGKILL);
        self::assertSame(["mail to ada@example.com\n", false, 0], [file_get_contents($output), $status['running'], $status['exitcode']]);
    }

    public function testBatchesAndSchedules(): void
    {
        $server = Server::start();
        $this->write('vendor/autoload.php', '<?php ' . self::bootstrap());
        $this->write('example.php', "<?php\n" . self::example('new Schedules(', $server));
        self::assertSame("2\n02:30\n02:30\n02:30", self::php($this->directory, 'example.php'));
    }

    public function testLaravel(): void
    {
        $server = Server::start();
        $directory = App::create([]);
        $connection = self::example("'driver' => 'redstalk'", $server);
        file_put_contents("$directory/config/queue.php", "<?php return ['default' => env('QUEUE_CONNECTION'), 'connections' => [$connection], 'failed' => ['driver' => 'null']];");
        file_put_contents("$directory/app/Jobs/SendWelcome.php", '<?php
            namespace App\Jobs;
            class SendWelcome implements \Illuminate\Contracts\Queue\ShouldQueue {
                use \Illuminate\Bus\Queueable, \Illuminate\Foundation\Bus\Dispatchable;
                public function __construct(public string $address) {}
                public function handle(): void { echo "mail to $this->address\n"; }
            }');
        $dispatch = "\$kernel->bootstrap();\nApp\\Jobs\\SendWelcome::dispatch('ada@example.com');\n";
        file_put_contents("$directory/dispatch.php", preg_replace('/^\s*exit\(.*$/m', $dispatch, file_get_contents("$directory/artisan")));
        self::php($directory, 'dispatch.php');
        self::assertStringContainsString('mail to ada@example.com', self::php($directory, 'artisan queue:work --stop-when-empty'));
        self::assertStringContainsString('mails  retry:10s,1m', self::php($directory, 'artisan redstalk:policy mails retry:10s,1m'));
    }

    public function testSymfony(): void
    {
        $server = Server::start();
        $this->write('config/packages/messenger.yaml', self::example('failure_transport', $server));
        $this->write('config/packages/framework.yaml', "framework: { secret: x }\n");
        $this->write('config/services.yaml', "services:\n    _defaults: { autowire: true, autoconfigure: true }\n    App\\: { resource: '../src/' }\n    logger: { class: Psr\\Log\\NullLogger }\n"
            . "    bus: { alias: messenger.default_bus, public: true }\n" . self::example('RedstalkTransportFactory: ~', $server));
        $this->write('src/Message/Welcome.php', '<?php
            namespace App\Message;
            final class Welcome { public function __construct(public readonly string $address) {} }');
        $this->write('src/MessageHandler/WelcomeHandler.php', '<?php
            namespace App\MessageHandler;
            #[\Symfony\Component\Messenger\Attribute\AsMessageHandler]
            final class WelcomeHandler {
                public function __invoke(\App\Message\Welcome $message): void { echo "mail to $message->address\n"; }
            }');
        $this->write('src/Kernel.php', '<?php
            namespace App;
            final class Kernel extends \Symfony\Component\HttpKernel\Kernel {
                use \Symfony\Bundle\FrameworkBundle\Kernel\MicroKernelTrait;
                public function registerBundles(): iterable { return [new \Symfony\Bundle\FrameworkBundle\FrameworkBundle()]; }
                public function getProjectDir(): string { return dirname(__DIR__); }
            }');
        preg_match('/MESSENGER_TRANSPORT_DSN=(redstalk:[^`]+)/', file_get_contents(__DIR__ . '/../README.md'), $dsn);
        $this->write('bin/console', '<?php ' . self::bootstrap() . '
            $_SERVER["MESSENGER_TRANSPORT_DSN"] = "' . str_replace('127.0.0.1:11300', $server->address(), $dsn[1]) . '";
            spl_autoload_register(fn ($class) => @include dirname(__DIR__)."/src/".strtr(substr($class, 4), "\\\\", "/").".php");
            $kernel = new App\Kernel("prod", false);
            if ($argv[1] === "dispatch") {
                $kernel->boot();
                $kernel->getContainer()->get("bus")->dispatch(new App\Message\Welcome("ada@example.com"));
                exit;
            }
            (new Symfony\Bundle\FrameworkBundle\Console\Application($kernel))->run();');
        self::php($this->directory, 'bin/console dispatch');
        self::assertStringContainsString('mail to ada@example.com', self::php($this->directory, 'bin/console messenger:consume async --limit=1'));
    }

    public function testComposerMetadata(): void
    {
        exec('cd ' . escapeshellarg(dirname(__DIR__)) . ' && composer validate --strict --no-interaction 2>&1', $lines, $status);
        self::assertSame(0, $status, implode("\n", $lines));
    }
}
