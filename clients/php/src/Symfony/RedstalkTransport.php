<?php

declare(strict_types=1);

namespace Redstalk\Symfony;

use Redstalk\Client;
use Redstalk\Exception\NotFoundException;
use Redstalk\Exception\RedstalkException;
use Redstalk\Exception\UnavailableException;
use Redstalk\Exception\UnknownOutcomeException;
use Redstalk\Inspector;
use Redstalk\Job;
use Redstalk\OnDuplicate;
use Redstalk\OnExpire;
use Redstalk\PutOptions;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Exception\InvalidArgumentException;
use Symfony\Component\Messenger\Exception\LogicException;
use Symfony\Component\Messenger\Exception\MessageDecodingFailedException;
use Symfony\Component\Messenger\Exception\TransportException;
use Symfony\Component\Messenger\Stamp\DelayStamp;
use Symfony\Component\Messenger\Stamp\ErrorDetailsStamp;
use Symfony\Component\Messenger\Stamp\RedeliveryStamp;
use Symfony\Component\Messenger\Stamp\SentForRetryStamp;
use Symfony\Component\Messenger\Stamp\SentToFailureTransportStamp;
use Symfony\Component\Messenger\Stamp\TransportMessageIdStamp;
use Symfony\Component\Messenger\Transport\Receiver\ListableReceiverInterface;
use Symfony\Component\Messenger\Transport\Receiver\MessageCountAwareInterface;
use Symfony\Component\Messenger\Transport\Serialization\SerializerInterface;
use Symfony\Component\Messenger\Transport\SetupableTransportInterface;
use Symfony\Component\Messenger\Transport\TransportInterface;

/** A tube. Bodies are those of Symfony's own transport for beanstalkd, so that its messages can be received. */
class RedstalkTransport implements
    TransportInterface,
    ListableReceiverInterface,
    MessageCountAwareInterface,
    SetupableTransportInterface,
    KeepaliveReceiver,
    CloseableTransport
{
    protected readonly Inspector $inspector;

    /**
     * @param int $timeout how many seconds get() waits for a message
     * @param int $ttr seconds until a message whose worker has ended is delivered again
     * @param int $repeatFor how many seconds the server remembers puts, so that they can be repeated; 0 for not at all
     * @param ?float $keep for how many seconds the records of ended messages are kept; null leaves it to the policy of the tube
     * @param bool $buryOnReject messages that have failed for good are buried, not deleted
     */
    public function __construct(
        protected readonly Client $client,
        protected readonly SerializerInterface $serializer,
        protected readonly string $tube = 'default',
        protected readonly int $timeout = 0,
        protected readonly int $ttr = 90,
        protected readonly int $repeatFor = 0,
        protected readonly ?float $keep = null,
        protected readonly bool $buryOnReject = false,
    ) {
        if ($buryOnReject && !class_exists(SentForRetryStamp::class)) {
            throw new InvalidArgumentException('The option bury_on_reject needs Symfony 7.3.'); // which says what was sent for a retry
        }
        $this->inspector = new Inspector($client);
    }

    public function send(Envelope $envelope): Envelope
    {
        $stamp = $envelope->last(RedstalkStamp::class);
        $body = json_encode(
            $this->serializer->encode($envelope) + ['headers' => []] + ($stamp === null ? [] : ['options' => self::pack($stamp->options)]),
        );
        if ($body === false) {
            throw new TransportException(json_last_error_msg());
        }
        $id = $this->try(fn () => $this->client->put($this->tube, $body, $this->options($envelope))->id);

        return $envelope->with(new TransportMessageIdStamp((string) $id));
    }

    /**
     * Each message is reserved when the worker comes to it, so that none waits in a worker.
     *
     * @param int $fetchSize the most messages, --fetch-size since Symfony 8.1
     */
    public function get(int $fetchSize = 1): iterable
    {
        for ($i = 0; $i < $fetchSize; $i++) {
            $job = $this->try(fn () => $this->client->reserve($this->tube, $i === 0 ? $this->timeout : 0));
            if ($job === null) {
                return;
            }
            yield $this->received($job);
        }
    }

    public function ack(Envelope $envelope): void
    {
        $this->delete($envelope);
    }

    public function reject(Envelope $envelope): void
    {
        if (!$this->buryOnReject || $envelope->last(SentForRetryStamp::class)?->isSent) {
            $this->delete($envelope);

            return;
        }
        $error = $envelope->last(ErrorDetailsStamp::class);
        $this->finish(fn () => $this->job($envelope)->bury($error === null ? '' : $error->getExceptionClass() . ': ' . $error->getExceptionMessage()));
    }

    /** A tube needs no setup: this only looks whether a server is there. */
    public function setup(): void
    {
        $this->try(fn () => $this->client->capabilities());
    }

    public function close(): void
    {
        $this->client->close();
    }

    /**
     * Starts the TTR of a message again. A signal handler can call it, as messenger:consume --keepalive does: that goes over a
     * second connection while the first one is in use, which beanstalkd does not allow. If no server is there, the next call
     * tries again.
     *
     * @throws TransportException if the message is no longer reserved
     */
    public function keepalive(Envelope $envelope, ?int $seconds = null): void
    {
        if ($seconds !== null && $seconds > $this->ttr) {
            throw new TransportException("The option ttr ($this->ttr) is smaller than the keepalive interval ($seconds).");
        }
        $this->try(function () use ($envelope): void {
            try {
                $this->job($envelope)->touch();
            } catch (UnavailableException | UnknownOutcomeException) {
            }
        });
    }

    public function getMessageCount(): int
    {
        return $this->try(function () {
            try {
                $stats = $this->inspector->tube($this->tube);
            } catch (NotFoundException) {
                return 0; // it is empty
            }

            return $stats->ready + $stats->delayed;
        });
    }

    public function all(?int $limit = null): iterable
    {
        try {
            foreach (['ready', 'delayed'] as $state) {
                foreach ($this->inspector->jobs($this->tube, $state) as $stats) {
                    if ($limit !== null && $limit-- <= 0) {
                        return;
                    }
                    if ($envelope = $this->find($stats->id)) {
                        yield $envelope;
                    }
                }
            }
        } catch (RedstalkException $e) {
            throw new TransportException($e->getMessage(), 0, $e);
        }
    }

    public function find(mixed $id): ?Envelope
    {
        $job = $this->try(fn () => $this->inspector->peek((int) $id));

        return $job === null ? null : $this->envelope($job);
    }

    private function options(Envelope $envelope): PutOptions
    {
        $stamp = $envelope->last(SentToFailureTransportStamp::class) === null ? $envelope->last(RedstalkStamp::class) : null;
        $options = $stamp?->options ?? new PutOptions(); // failed messages neither expire nor replace each other
        $changes = ['ttr' => $this->ttr, 'keep' => $options->keep ?? $this->keep];
        if ($delay = $envelope->last(DelayStamp::class)) {
            $changes += ['delay' => $delay->getDelay() / 1000, 'at' => null];
        }
        if ($options->key !== null && $envelope->last(RedeliveryStamp::class) !== null) {
            $changes['onDuplicate'] = OnDuplicate::Replace; // the message that has failed still has the key
        } elseif ($options->key === null && $this->repeatFor > 0) {
            $changes += ['key' => bin2hex(random_bytes(10)), 'keyTtl' => $this->repeatFor];
        }

        return $options->with(...$changes);
    }

    /** @return array<string, mixed> what unpack() needs; without $at, which does not concern a retry */
    private static function pack(PutOptions $options): array
    {
        $all = ['at' => null, 'onDuplicate' => $options->onDuplicate?->value, 'onExpire' => $options->onExpire?->value];

        return array_filter($all + get_object_vars($options), fn ($value) => $value !== null && $value !== []);
    }

    /** @param array<string, mixed> $all */
    private static function unpack(array $all): PutOptions
    {
        try {
            $all['onDuplicate'] = OnDuplicate::tryFrom($all['onDuplicate'] ?? '');
            $all['onExpire'] = OnExpire::tryFrom($all['onExpire'] ?? '');

            return new PutOptions(...$all);
        } catch (\Error | RedstalkException $e) {
            throw new MessageDecodingFailedException($e->getMessage(), 0, $e);
        }
    }

    /** Returns the message of a job, or as Symfony 8.1 has it, an envelope that says why it cannot be decoded; before, such a message is deleted. */
    private function received(Job $job): Envelope
    {
        try {
            return $this->envelope($job);
        } catch (MessageDecodingFailedException $e) {
            if (method_exists($e, 'wrap')) {
                $message = json_decode($job->body, true);
                $encoded = is_array($message) && isset($message['body']) ? $message : ['body' => $job->body];

                return self::stamped($e::wrap($encoded + ['headers' => []], $e->getMessage(), $e->getCode(), $e), $job);
            }
            $this->try(fn () => $job->delete());
            throw $e;
        }
    }

    private function envelope(Job $job): Envelope
    {
        $message = json_decode($job->body, true);
        if (!is_array($message) || !isset($message['body'])) {
            throw new MessageDecodingFailedException("The body of job $job->id is not that of a message.");
        }
        $envelope = $this->serializer->decode($message);
        if (isset($message['options'])) {
            $envelope = $envelope->with(new RedstalkStamp(self::unpack($message['options'])));
        }

        return self::stamped($envelope, $job);
    }

    private static function stamped(Envelope $envelope, Job $job): Envelope
    {
        return $envelope->with(new RedstalkReceivedStamp($job), new TransportMessageIdStamp((string) $job->id));
    }

    private function job(Envelope $envelope): Job
    {
        return $envelope->last(RedstalkReceivedStamp::class)?->job ?? throw new LogicException('The envelope has no RedstalkReceivedStamp.');
    }

    private function delete(Envelope $envelope): void
    {
        $this->finish(fn () => $this->job($envelope)->delete());
    }

    private function finish(\Closure $do): void
    {
        try {
            $this->try($do);
        } catch (TransportException $e) {
            if (!$e->getPrevious() instanceof NotFoundException) { // that one has a new owner, or is gone already
                throw $e;
            }
        }
    }

    private function try(\Closure $do): mixed
    {
        try {
            return $do();
        } catch (RedstalkException $e) {
            throw new TransportException($e->getMessage(), 0, $e);
        }
    }
}
