<?php

declare(strict_types=1);

namespace Redstalk\Exception;

/** The base of all exceptions of this package; itself only for a reply that should not exist. */
class RedstalkException extends \RuntimeException
{
}
