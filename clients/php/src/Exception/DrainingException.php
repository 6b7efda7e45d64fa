<?php

declare(strict_types=1);

namespace Redstalk\Exception;

/** No server accepts puts at present. */
final class DrainingException extends RedstalkException
{
}
