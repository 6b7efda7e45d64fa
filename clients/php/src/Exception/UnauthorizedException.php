<?php

declare(strict_types=1);

namespace Redstalk\Exception;

/** The user or the secret is wrong. */
final class UnauthorizedException extends RedstalkException
{
}
