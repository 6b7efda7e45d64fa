<?php

declare(strict_types=1);

namespace Redstalk\Exception;

/** There is no such job, key, tube or policy, or the job is not in a state for the command, or no longer reserved by the caller. */
final class NotFoundException extends RedstalkException
{
}
