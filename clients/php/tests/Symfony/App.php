<?php

declare(strict_types=1);

namespace Redstalk\Tests\Symfony;

use Psr\Log\NullLogger;
use Redstalk\Symfony\RedstalkTransport;
use Redstalk\Symfony\RedstalkTransportFactory;
use Symfony\Bundle\FrameworkBundle\Console\Application;
use Symfony\Bundle\FrameworkBundle\FrameworkBundle;
use Symfony\Bundle\FrameworkBundle\Kernel\MicroKernelTrait;
use Symfony\Component\Console\Input\StringInput;
use Symfony\Component\Console\Output\BufferedOutput;
use Symfony\Component\DependencyInjection\Loader\Configurator\ContainerConfigurator;
use Symfony\Component\HttpKernel\Kernel;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\MessageBusInterface;
use Symfony\Component\Messenger\Stamp\StampInterface;

/** A small Symfony application whose messages go to the transport "async", and to "failed" after three retries. */
final class App extends Kernel
{
    use MicroKernelTrait;

    private readonly string $directory;

    public function __construct(private readonly string $dsn, private readonly string $failed, private readonly int $retryDelay = 10_000)
    {
        parent::__construct('test', false);
        $this->directory = sys_get_temp_dir() . '/redstalk-php-symfony-' . getmypid() . '-' . hash('crc32', "$dsn $retryDelay");
        $this->boot();
    }

    public function registerBundles(): iterable
    {
        return [new FrameworkBundle()];
    }

    public function getProjectDir(): string
    {
        return $this->directory;
    }

    public function getCacheDir(): string
    {
        return "$this->directory/cache";
    }

    public function getLogDir(): string
    {
        return "$this->directory/log";
    }

    private function configureContainer(ContainerConfigurator $container): void
    {
        $container->extension('framework', [
            'secret' => 'x',
            'messenger' => [
                'failure_transport' => 'failed',
                'transports' => [
                    'async' => ['dsn' => $this->dsn, 'retry_strategy' => ['delay' => $this->retryDelay, 'multiplier' => 2]],
                    'failed' => ['dsn' => $this->failed],
                ],
                'routing' => [Message::class => 'async'],
            ],
        ]);
        $services = $container->services()->defaults()->autowire()->autoconfigure();
        $services->set(RedstalkTransportFactory::class);
        $services->set('logger', NullLogger::class);
        $services->set(Handler::class)->public();
        $services->alias('test.bus', 'messenger.default_bus')->public();
        $services->alias('test.async', 'messenger.transport.async')->public();
        $services->alias('test.failed', 'messenger.transport.failed')->public();
    }

    public function bus(): MessageBusInterface
    {
        return $this->getContainer()->get('test.bus');
    }

    public function dispatch(string $text, StampInterface ...$stamps): Envelope
    {
        return $this->bus()->dispatch(new Message($text), $stamps);
    }

    public function async(): RedstalkTransport
    {
        return $this->getContainer()->get('test.async');
    }

    public function failed(): RedstalkTransport
    {
        return $this->getContainer()->get('test.failed');
    }

    public function handler(): Handler
    {
        return $this->getContainer()->get(Handler::class);
    }

    /** Runs a command of bin/console, and returns its output. */
    public function console(string $command): string
    {
        $application = new Application($this);
        $application->setAutoExit(false);
        $application->setCatchExceptions(false);
        $output = new BufferedOutput();
        $application->run(new StringInput("$command --no-interaction"), $output);

        return $output->fetch();
    }

    /** Handles a number of messages as messenger:consume does, and returns what the handler has seen. */
    public function consume(int $limit, string $transport = 'async'): array
    {
        $this->console("messenger:consume $transport --limit=$limit --time-limit=20 --sleep=0.01");

        return $this->handler()->take();
    }

    public function __destruct()
    {
        exec('rm -rf ' . escapeshellarg($this->directory));
    }
}
