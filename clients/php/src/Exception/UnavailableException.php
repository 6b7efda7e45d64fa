<?php

declare(strict_types=1);

namespace Redstalk\Exception;

/** No server could be reached within the client's timeout. The command was not carried out, or only reads. */
final class UnavailableException extends RedstalkException
{
}
