<?php

declare(strict_types=1);

namespace Redstalk\Internal;

/** @internal A command, with what is to be done if its reply does not come. */
final class Command
{
    /**
     * @param string $line without CR LF
     * @param ?string $body of a put
     * @param string $tube the tube to use before; empty if it does not matter
     * @param string $needs the capability of the server without which it is unsupported; empty for none
     * @param bool $repeat carried out twice it does the same as once, so it is sent again if its reply is lost; otherwise that is an unknown outcome
     * @param bool $changes it changes something
     * @param int $wait how many seconds the server can wait with the reply
     */
    public function __construct(
        public readonly string $line,
        public readonly ?string $body = null,
        public readonly string $tube = '',
        public readonly string $needs = '',
        public readonly bool $repeat = false,
        public readonly bool $changes = true,
        public readonly int $wait = 0,
    ) {
    }

    /** A command that only reads. */
    public static function query(string $line, string $needs = '', string $tube = ''): self
    {
        return new self($line, tube: $tube, needs: $needs, repeat: true, changes: false);
    }

    /** What a server lacks that has not what the command needs, such as "touch with progress". */
    public function feature(): string
    {
        return $this->verb() . (preg_match('/ (progress(?=:)|keep-checkpoint)/', $this->line, $match) ? " with $match[1]" : '');
    }

    /** The first word of the line. */
    public function verb(): string
    {
        return explode(' ', $this->line, 2)[0];
    }
}
