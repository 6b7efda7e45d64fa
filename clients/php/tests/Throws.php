<?php

declare(strict_types=1);

namespace Redstalk\Tests;

trait Throws
{
    private static function assertThrows(string $class, \Closure $do, string $message = ''): \Throwable
    {
        try {
            $do();
        } catch (\Throwable $e) {
            self::assertInstanceOf($class, $e, "$message $e");

            return $e;
        }
        self::fail("no $class: $message");
    }
}
