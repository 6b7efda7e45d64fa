<?php

declare(strict_types=1);

namespace Redstalk\Exception;

/** The key of a put with OnDuplicate::Fail is taken. */
final class DuplicateException extends RedstalkException
{
}
