<?php

declare(strict_types=1);

namespace Redstalk\Internal;

use Psr\Log\LoggerInterface;
use Redstalk\Exception\InvalidArgumentException;
use Redstalk\Exception\UnauthorizedException;

/** @internal Connects to one of several servers that share their jobs. */
final class Dialer
{
    /** How long an address that failed is tried only after the others, in seconds. */
    private const AVOIDANCE = 10.0;

    /** Options of PHP's ssl context, which PHP would ignore if they were misspelled. */
    private const TLS = [
        'peer_name', 'verify_peer', 'verify_peer_name', 'allow_self_signed', 'cafile', 'capath', 'local_cert', 'local_pk', 'passphrase', 'verify_depth',
        'ciphers', 'peer_fingerprint', 'security_level', 'SNI_enabled', 'disable_compression', 'crypto_method', 'min_proto_version', 'max_proto_version',
        'no_ticket', 'capture_peer_cert', 'capture_peer_cert_chain', 'capture_session_meta',
    ];

    /** @var list<string> in a random order, so that many clients spread over them */
    private array $addresses;

    /** @var array<string, float> until when to avoid an address */
    private array $avoid = [];

    /** @param array<string, mixed> $tls options of PHP's ssl context */
    public function __construct(
        string $addresses,
        private readonly string $user,
        #[\SensitiveParameter] private readonly string $secret,
        private readonly array $tls,
        private readonly string $name,
        private readonly float $connectTimeout,
        private readonly float $replyTimeout,
        private readonly LoggerInterface $logger,
    ) {
        $this->addresses = preg_split('/[\s,]+/', $addresses, -1, PREG_SPLIT_NO_EMPTY) ?: [];
        if ($this->addresses === [] || !preg_match('/^[!-~]*$/D', $name . $user) || strpbrk($secret, "\r\n") !== false) {
            throw new InvalidArgumentException('invalid address, user, secret or name of a connection');
        }
        if ($unknown = array_diff(array_keys($tls), self::TLS)) {
            throw new InvalidArgumentException('tls has no option ' . implode(', ', $unknown));
        }
        shuffle($this->addresses);
    }

    /**
     * Connects to the first address that answers.
     *
     * @throws ConnectionLost if none does
     * @throws UnauthorizedException
     */
    public function dial(): Connection
    {
        $now = microtime(true);
        usort($this->addresses, fn ($a, $b) => max($this->avoid[$a] ?? 0, $now) <=> max($this->avoid[$b] ?? 0, $now));
        $reasons = [];
        foreach ($this->addresses as $address) {
            try {
                $connection = $this->connect($address);
                $this->handshake($connection);
                $this->logger->debug("redstalk: connected to $address", ['address' => $address]);

                return $connection;
            } catch (ConnectionLost $e) {
                $this->failed($address);
                $reasons[] = $e->getMessage();
            }
        }
        throw new ConnectionLost(implode('; ', $reasons), false);
    }

    /** Makes an address be tried after the others for a while. Returns whether there is another that has not failed recently. */
    public function failed(string $address): bool
    {
        $now = microtime(true);
        $this->avoid[$address] = $now + self::AVOIDANCE;

        return array_filter($this->addresses, fn ($a) => ($this->avoid[$a] ?? 0) <= $now) !== [];
    }

    private function connect(string $address): Connection
    {
        $unix = str_starts_with($address, 'unix:');
        $target = match (true) {
            $unix => 'unix://' . substr($address, 5),
            str_contains($address, '://') => $address,
            default => "tcp://$address",
        };
        if (!$unix && !preg_match('/:\d+$/D', $target)) {
            $target .= ':11300';
        }
        $context = stream_context_create(['ssl' => $this->tls, 'socket' => ['tcp_nodelay' => true]]);
        $warnings = [];
        set_error_handler(function (int $_, string $warning) use (&$warnings): bool {
            $warnings[] = $warning;

            return true;
        });
        try {
            $stream = stream_socket_client($target, $code, $message, $this->connectTimeout, STREAM_CLIENT_CONNECT, $context);
        } finally {
            restore_error_handler();
        }
        if ($stream === false) {
            throw new ConnectionLost("cannot connect to $address: " . ($message ?: implode('; ', $warnings)), false);
        }

        return new Connection($stream, $address, $this->replyTimeout);
    }

    /** Authenticates, names the connection and asks for the capabilities, in one round trip. */
    private function handshake(Connection $connection): void
    {
        $commands = [new Command('capabilities')];
        if ($this->name !== '') {
            array_unshift($commands, new Command("client $this->name"));
        }
        if ($this->user !== '') {
            array_unshift($commands, new Command("auth $this->user $this->secret"));
        }
        $replies = $connection->exchange($commands);
        if ($this->user !== '' && $replies[0]->word !== 'AUTHENTICATED') {
            $connection->close();
            if ($replies[0]->word === 'OUT_OF_MEMORY') {
                throw new ConnectionLost("$connection->address has too many connections of $this->user", false);
            }
            throw new UnauthorizedException("auth: $connection->address replied {$replies[0]->word}");
        }
        $page = end($replies)->body; // null of beanstalkd, which does not know the command
        $connection->capabilities = $page === null ? [] : array_fill_keys(Page::names($page), true);
    }
}
