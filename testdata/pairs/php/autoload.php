<?php

// Loads the client of this repository and psr/log, which Composer does elsewhere.

spl_autoload_register(function (string $class): void {
    $path = strtr($class, '\\', '/') . '.php';
    foreach ([dirname(__DIR__, 3) . '/clients/php/src/' . preg_replace('~^Redstalk/~', '', $path), "/usr/share/php/$path"] as $file) {
        if (is_file($file)) {
            require $file;

            return;
        }
    }
});
