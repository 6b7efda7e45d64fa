<?php

declare(strict_types=1);

namespace Redstalk\Symfony;

use Symfony\Component\Messenger\Transport\CloseableTransportInterface;

if (interface_exists(CloseableTransportInterface::class)) { // since Symfony 7.3
    /** @internal */
    interface CloseableTransport extends CloseableTransportInterface
    {
    }
} else {
    /** @internal */
    interface CloseableTransport
    {
    }
}
