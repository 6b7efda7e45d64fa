<?php

declare(strict_types=1);

namespace Redstalk\Exception;

/** The server lacks a feature, as beanstalkd lacks keys. Nothing was done. */
final class UnsupportedException extends RedstalkException
{
    /** @param string $feature what the server lacks, such as "put with key" */
    public function __construct(public readonly string $feature, string $address = '')
    {
        parent::__construct("$feature: not supported by the server" . ($address === '' ? '' : " at $address"));
    }
}
