<?php

declare(strict_types=1);

namespace Redstalk\Symfony;

use Psr\Log\LoggerInterface;
use Psr\Log\NullLogger;
use Redstalk\Client;
use Symfony\Component\Messenger\Exception\InvalidArgumentException;
use Symfony\Component\Messenger\Transport\Serialization\SerializerInterface;
use Symfony\Component\Messenger\Transport\TransportFactoryInterface;
use Symfony\Component\Messenger\Transport\TransportInterface;

/** Makes transports of redstalk://USER:SECRET@HOST:PORT,HOST:PORT/TUBE?OPTION=VALUE, or redstalks:// with TLS. */
class RedstalkTransportFactory implements TransportFactoryInterface
{
    /**
     * tube_name: instead of the path; timeout: seconds that get() waits for a message; ttr: seconds; repeat_for: seconds that the
     * server remembers puts, so that they can be repeated; keep: seconds that it keeps the records of ended messages; wait: seconds
     * that a call waits for a connection; bury_on_reject: bury what has failed for good; auto_setup: has no effect, since a tube needs no setup;
     * cafile, local_cert, local_pk, peer_name: of PHP's ssl context.
     */
    private const OPTIONS = [
        'tube_name' => '', 'timeout' => 0, 'ttr' => 90, 'repeat_for' => 0, 'keep' => null, 'wait' => 10, 'bury_on_reject' => false, 'auto_setup' => true,
        'cafile' => '', 'local_cert' => '', 'local_pk' => '', 'peer_name' => '',
    ];

    public function __construct(private readonly ?LoggerInterface $logger = null)
    {
    }

    /** @param array<string, mixed> $options of the configuration, which come before those of the DSN */
    public function createTransport(#[\SensitiveParameter] string $dsn, array $options, SerializerInterface $serializer): TransportInterface
    {
        unset($options['transport_name']);
        if (!preg_match('~^redstalk(s?)://(?:([^:@/]*)(?::([^@/]*))?@)?([^/?@]+)(?:/([^?]*))?(?:\?(.*))?$~D', $dsn, $part)) {
            throw new InvalidArgumentException('The DSN of redstalk is invalid.');
        }
        parse_str($part[6] ?? '', $query);
        $options += $query;
        if ($unknown = array_diff_key($options, self::OPTIONS)) {
            throw new InvalidArgumentException(sprintf('Unknown options of redstalk: "%s".', implode('", "', array_keys($unknown))));
        }
        $options += self::OPTIONS;
        $scheme = $part[1] === '' ? 'tcp' : 'tls';
        $tls = array_filter(array_intersect_key($options, array_flip(['cafile', 'local_cert', 'local_pk', 'peer_name'])));
        $client = new Client(
            implode(',', array_map(fn ($address) => "$scheme://$address", explode(',', $part[4]))),
            user: rawurldecode($part[2]),
            secret: rawurldecode($part[3]),
            tls: $tls,
            timeout: (float) $options['wait'],
            logger: $this->logger ?? new NullLogger(),
        );

        return new RedstalkTransport(
            $client,
            $serializer,
            $options['tube_name'] ?: rawurldecode($part[5] ?? '') ?: 'default',
            (int) $options['timeout'],
            (int) $options['ttr'],
            (int) $options['repeat_for'],
            isset($options['keep']) ? (float) $options['keep'] : null,
            filter_var($options['bury_on_reject'], FILTER_VALIDATE_BOOLEAN),
        );
    }

    public function supports(#[\SensitiveParameter] string $dsn, array $options): bool
    {
        return str_starts_with($dsn, 'redstalk://') || str_starts_with($dsn, 'redstalks://');
    }
}
