<?php

declare(strict_types=1);

namespace Redstalk\Internal;

use Redstalk\Exception;
use Redstalk\Exception\RedstalkException;

/** @internal The reply to a command, as it was read. */
final class Reply
{
    /** The exceptions of the words that refuse a command. */
    private const EXCEPTIONS = [
        'NOT_FOUND' => Exception\NotFoundException::class,
        'NOT_KEPT' => Exception\NotKeptException::class,
        'DEADLINE_SOON' => Exception\DeadlineSoonException::class,
        'DUPLICATE' => Exception\DuplicateException::class,
        'BATCH_SEALED' => Exception\BatchSealedException::class,
        'DRAINING' => Exception\DrainingException::class,
        'JOB_TOO_BIG' => Exception\JobTooBigException::class,
        'OUT_OF_MEMORY' => Exception\OutOfMemoryException::class,
        'BURIED' => Exception\OutOfMemoryException::class, // to a put
        'FORBIDDEN' => Exception\ForbiddenException::class,
        'UNAUTHORIZED' => Exception\UnauthorizedException::class,
        'BAD_FORMAT' => Exception\InvalidArgumentException::class,
        'INTERNAL_ERROR' => Exception\ServerException::class,
    ];

    /**
     * @param string $word the first word, such as INSERTED
     * @param string $args the rest of the line
     * @param ?string $body a job's body, a page, or what an ended job has left
     * @param list<array{id: int, lease: string, body: string, info: ?string}> $jobs of RESERVED, LEASED and RESERVED_BATCH
     */
    public function __construct(
        public readonly string $word,
        public readonly string $args = '',
        public readonly ?string $body = null,
        public readonly array $jobs = [],
    ) {
    }

    /** Reads one reply. */
    public static function read(Connection $in): self
    {
        [$word, $args] = explode(' ', $in->line(), 2) + [1 => ''];
        switch ($word) {
            case 'OK':
                return new self($word, $args, $in->body($args));
            case 'ENDED':
                return new self($word, $args, $in->body(explode(' ', $args)[2] ?? ''));
            case 'FOUND':
            case 'RESERVED':
            case 'LEASED':
                $job = self::job($in, $args);

                return new self($word, $args, $job['body'], [$job]);
            case 'RESERVED_BATCH':
                $jobs = [];
                for ($i = $in->number($args); $i > 0; $i--) {
                    $jobs[] = self::job($in, explode(' ', $in->line(), 2)[1] ?? '');
                }

                return new self($word, $args, null, $jobs);
        }

        return new self($word, $args);
    }

    /**
     * Reads the job whose line continues with ID BYTES, ID LEASE BYTES, or ID LEASE BYTES INFO-BYTES.
     *
     * @return array{id: int, lease: string, body: string, info: ?string}
     */
    private static function job(Connection $in, string $args): array
    {
        $fields = explode(' ', $args);
        $lease = count($fields) > 2 ? array_splice($fields, 1, 1)[0] : '';

        return [
            'id' => $in->number($fields[0]),
            'lease' => $lease,
            'body' => $in->body($fields[1] ?? ''),
            'info' => isset($fields[2]) ? $in->body($fields[2]) : null,
        ];
    }

    /**
     * Returns the reply if it has one of these words.
     *
     * @throws RedstalkException that the word stands for
     */
    public function expect(string $verb, string ...$words): self
    {
        if (in_array($this->word, $words, true)) {
            return $this;
        }
        throw $this->exception($verb);
    }

    /** Returns the exception that the reply stands for. */
    public function exception(string $verb): RedstalkException
    {
        if ($this->word === 'UNKNOWN_COMMAND') {
            return new Exception\UnsupportedException($verb);
        }
        $class = self::EXCEPTIONS[$this->word] ?? RedstalkException::class;

        return new $class("$verb: the server replied " . trim("$this->word $this->args"));
    }
}
