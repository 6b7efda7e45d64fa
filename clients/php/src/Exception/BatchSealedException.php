<?php

declare(strict_types=1);

namespace Redstalk\Exception;

/** A put of a member of a batch that is sealed. */
final class BatchSealedException extends RedstalkException
{
}
