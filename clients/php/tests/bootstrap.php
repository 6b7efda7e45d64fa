<?php

declare(strict_types=1);

// Loads Composer's autoloader, or else the packages of Debian.

if (is_file($autoload = __DIR__ . '/../vendor/autoload.php')) {
    require $autoload;

    return;
}
error_reporting(E_ALL & ~E_DEPRECATED); // of old packages on a newer PHP
if (!class_exists(Composer\InstalledVersions::class)) { // which FrameworkBundle asks for
    eval('namespace Composer; final class InstalledVersions { public static function __callStatic($name, $arguments) { return $name === "getRootPackage" ? ["name" => "x", "dev" => true] : false; } }');
}
foreach (['Illuminate', 'Symfony/Component/Console', 'Symfony/Component/Messenger', 'Symfony/Component/Messenger/Bridge/Redis', 'Symfony/Bundle/FrameworkBundle'] as $package) {
    if (stream_resolve_include_path("$package/autoload.php")) { // a suite can lack one of the frameworks
        require_once "$package/autoload.php";
    }
}
spl_autoload_register(static function (string $class): void {
    foreach (['Redstalk\\Tests\\' => __DIR__, 'Redstalk\\' => __DIR__ . '/../src'] as $prefix => $directory) {
        $file = $directory . '/' . strtr(substr($class, strlen($prefix)), '\\', '/') . '.php';
        if (str_starts_with($class, $prefix) && is_file($file)) {
            require $file;

            return;
        }
    }
});
