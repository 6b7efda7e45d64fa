<?php

declare(strict_types=1);

namespace Redstalk\Tests\Symfony;

use Symfony\Component\Messenger\Attribute\AsMessageHandler;

#[AsMessageHandler]
final class Handler
{
    /** @var list<string> */
    private array $seen = [];

    /** @var ?\Closure(Message): void called for each message */
    public ?\Closure $do = null;

    public function __invoke(Message $message): void
    {
        $this->seen[] = $message->text;
        $this->do === null || ($this->do)($message);
    }

    /** @return list<string> the texts since the last call */
    public function take(): array
    {
        [$seen, $this->seen] = [$this->seen, []];

        return $seen;
    }
}
