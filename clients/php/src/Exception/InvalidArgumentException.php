<?php

declare(strict_types=1);

namespace Redstalk\Exception;

/** An argument is invalid, such as a tube's name or a tag. Where the client finds that, nothing was sent. */
final class InvalidArgumentException extends RedstalkException
{
}
