<?php

declare(strict_types=1);

namespace Redstalk\Exception;

/** The user lacks a right, or the server does not allow a push to that target. */
final class ForbiddenException extends RedstalkException
{
}
