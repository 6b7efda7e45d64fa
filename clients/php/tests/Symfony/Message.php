<?php

declare(strict_types=1);

namespace Redstalk\Tests\Symfony;

final class Message
{
    public function __construct(public readonly string $text)
    {
    }
}
