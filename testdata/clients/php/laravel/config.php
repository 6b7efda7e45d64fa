<?php
// The whole configuration of the application, where Laravel looks for a cached one.

$driver = [
    'driver' => 'beanstalkd', 'host' => '127.0.0.1', 'port' => (int) getenv('LIFE_PORT'), 'queue' => 'default',
    'retry_after' => 30, 'block_for' => 0, 'after_commit' => false,
];
$providers = [
    'Bus\BusServiceProvider', 'Cache\CacheServiceProvider', 'Database\DatabaseServiceProvider', 'Filesystem\FilesystemServiceProvider',
    'Foundation\Providers\ConsoleSupportServiceProvider', 'Foundation\Providers\FoundationServiceProvider',
    'Encryption\EncryptionServiceProvider', 'Queue\QueueServiceProvider',
];

return [
    'app' => [
        'key' => 'base64:' . base64_encode(str_repeat('k', 32)), 'cipher' => 'AES-256-CBC', 'env' => 'testing', 'debug' => true,
        'timezone' => 'UTC', 'providers' => array_map(fn ($name) => "Illuminate\\$name", $providers), 'aliases' => [],
    ],
    'cache' => ['default' => 'array', 'prefix' => '', 'stores' => ['array' => ['driver' => 'array', 'serialize' => false]]],
    'database' => ['default' => 'sqlite', 'connections' => ['sqlite' => ['driver' => 'sqlite', 'database' => ':memory:', 'prefix' => '']]],
    'logging' => ['default' => 'single', 'deprecations' => ['channel' => 'null'], 'channels' => [
        'null' => ['driver' => 'monolog', 'handler' => 'Monolog\Handler\NullHandler'],
        'single' => ['driver' => 'single', 'path' => getenv('LIFE_FOLDER') . '/log'],
    ]],
    'queue' => [
        'default' => 'plain',
        'connections' => ['plain' => $driver, 'short' => ['retry_after' => 2] + $driver, 'block' => ['block_for' => 2] + $driver],
        'failed' => ['driver' => 'null'],
        'batching' => ['database' => 'sqlite', 'table' => 'job_batches'],
    ],
    'view' => ['paths' => [], 'compiled' => getenv('LIFE_FOLDER') . '/views'],
];
