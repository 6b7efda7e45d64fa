<?php

declare(strict_types=1);

namespace Redstalk\Laravel;

use Illuminate\Queue\Connectors\ConnectorInterface;
use Psr\Log\LoggerInterface;
use Psr\Log\NullLogger;
use Redstalk\Client;
use Redstalk\Exception\InvalidArgumentException;
use Redstalk\OnExpire;
use Redstalk\PutOptions;

/** Makes the queue of a connection in config/queue.php. */
class RedstalkConnector implements ConnectorInterface
{
    private const KEYS = [
        'driver', 'host', 'user', 'secret', 'tls', 'name', 'timeout', 'queue', 'retry_after', 'block_for', 'after_commit', 'on_expire', 'repeat_for', 'keep',
    ];

    public function __construct(private readonly ?LoggerInterface $logger = null)
    {
    }

    /** @param array<string, mixed> $config its keys are in the README */
    public function connect(array $config): RedstalkQueue
    {
        if ($unknown = array_diff(array_keys($config), self::KEYS)) {
            throw new InvalidArgumentException('a queue connection of redstalk has no key ' . implode(', ', $unknown));
        }
        $client = new Client(
            $config['host'] ?? '127.0.0.1:11300',
            user: $config['user'] ?? '',
            secret: $config['secret'] ?? '',
            tls: $config['tls'] ?? [],
            name: $config['name'] ?? '',
            timeout: (float) ($config['timeout'] ?? 10),
            logger: $this->logger ?? new NullLogger(),
        );

        return new RedstalkQueue(
            $client,
            $config['queue'] ?? 'default',
            (int) ($config['retry_after'] ?? PutOptions::DEFAULT_TTR),
            (int) ($config['block_for'] ?? 0),
            (bool) ($config['after_commit'] ?? false),
            isset($config['on_expire']) ? OnExpire::from($config['on_expire']) : null,
            (int) ($config['repeat_for'] ?? 0),
            isset($config['keep']) ? (float) $config['keep'] : null,
        );
    }
}
