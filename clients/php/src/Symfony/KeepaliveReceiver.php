<?php

declare(strict_types=1);

namespace Redstalk\Symfony;

use Symfony\Component\Messenger\Transport\Receiver\KeepaliveReceiverInterface;

if (interface_exists(KeepaliveReceiverInterface::class)) { // since Symfony 7.2
    /** @internal */
    interface KeepaliveReceiver extends KeepaliveReceiverInterface
    {
    }
} else {
    /** @internal */
    interface KeepaliveReceiver
    {
    }
}
