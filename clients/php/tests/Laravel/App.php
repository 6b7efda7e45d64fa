<?php

declare(strict_types=1);

namespace Redstalk\Tests\Laravel;

use Illuminate\Contracts\Console\Kernel;
use Illuminate\Foundation\Application;
use Illuminate\Queue\Console\WorkCommand;
use Redstalk\Laravel\RedstalkQueue;
use Redstalk\Laravel\RedstalkServiceProvider;
use Redstalk\Tests\Server;

/** A small Laravel application in a directory of its own. */
final class App
{
    public readonly Application $app;

    private readonly Kernel $kernel;

    /** @param array<string, mixed> $connection more of the connection in config/queue.php */
    public function __construct(Server $server, array $connection = [])
    {
        $directory = self::create(['driver' => 'redstalk', 'host' => $server->address(), 'queue' => 'default', 'retry_after' => 30] + $connection);
        $this->app = require "$directory/bootstrap/app.php";
        if (method_exists(WorkCommand::class, 'flushState')) { // it listens to failures once in a process, for the first application
            WorkCommand::flushState();
        }
        $this->kernel = $this->app->make(Kernel::class);
        $this->kernel->bootstrap();
        restore_error_handler(); // of Laravel, so that PHPUnit sees warnings
        restore_exception_handler();
    }

    /**
     * Creates the files of an application, and returns their directory.
     *
     * @param array<string, mixed> $connection of the queue
     */
    public static function create(array $connection): string
    {
        $directory = sys_get_temp_dir() . '/redstalk-php-laravel-' . getmypid();
        @mkdir($directory);
        register_shutdown_function(fn () => exec('rm -rf ' . escapeshellarg($directory)));
        foreach (['bootstrap/cache', 'config', 'app/Jobs', 'storage/logs'] as $sub) {
            @mkdir("$directory/$sub", recursive: true);
        }
        $providers = array_map(fn ($name) => "Illuminate\\$name", [
            'Bus\BusServiceProvider', 'Cache\CacheServiceProvider', 'Database\DatabaseServiceProvider', 'Filesystem\FilesystemServiceProvider',
            'Foundation\Providers\ConsoleSupportServiceProvider', 'Foundation\Providers\FoundationServiceProvider', 'Queue\QueueServiceProvider', 'Redis\RedisServiceProvider',
        ]);
        $database = ['driver' => 'sqlite', 'database' => ':memory:', 'prefix' => ''];
        foreach (
            [
            'app' => ['key' => '', 'env' => 'testing', 'debug' => true, 'timezone' => 'UTC', 'providers' => [...$providers, RedstalkServiceProvider::class], 'aliases' => []],
            'cache' => ['default' => 'array', 'prefix' => '', 'stores' => ['array' => ['driver' => 'array', 'serialize' => false]]],
            'database' => ['default' => 'sqlite', 'connections' => ['sqlite' => $database], 'redis' => ['client' => 'phpredis', 'default' => $connection['redis'] ?? []]],
            'logging' => ['default' => 'single', 'channels' => ['single' => ['driver' => 'single', 'path' => "$directory/storage/logs/laravel.log"]]],
            'queue' => ['default' => 'redstalk', 'connections' => ['redstalk' => $connection], 'failed' => [
                'driver' => 'database-uuids', 'database' => 'sqlite', 'table' => 'failed_jobs',
            ]],
            ] as $name => $config
        ) {
            file_put_contents("$directory/config/$name.php", '<?php return ' . var_export($config, true) . ';');
        }
        file_put_contents("$directory/bootstrap/app.php", <<<'PHP'
            <?php
            $app = new Illuminate\Foundation\Application(dirname(__DIR__));
            if (method_exists($app, 'dontMergeFrameworkConfiguration')) { // its files are not in every package
                $app->dontMergeFrameworkConfiguration();
            }
            $app->singleton(Illuminate\Contracts\Console\Kernel::class, Illuminate\Foundation\Console\Kernel::class);
            $app->singleton(Illuminate\Contracts\Debug\ExceptionHandler::class, Illuminate\Foundation\Exceptions\Handler::class);
            return $app;
            PHP);
        $bootstrap = var_export(dirname(__DIR__) . '/bootstrap.php', true);
        file_put_contents("$directory/artisan", <<<PHP
            <?php
            require $bootstrap;
            spl_autoload_register(fn (\$class) => @include __DIR__.'/app/'.strtr(substr(\$class, 4), '\\\\', '/').'.php');
            \$kernel = (require __DIR__.'/bootstrap/app.php')->make(Illuminate\\Contracts\\Console\\Kernel::class);
            exit(\$kernel->handle(new Symfony\\Component\\Console\\Input\\ArgvInput(), new Symfony\\Component\\Console\\Output\\ConsoleOutput()));
            PHP);

        return $directory;
    }

    /** Runs a command, and returns its output. */
    public function artisan(string $command): string
    {
        $this->kernel->call($command);

        return $this->kernel->output();
    }

    /** Works on the jobs that are ready, as artisan queue:work does. */
    public function work(string $options = ''): string
    {
        return $this->artisan("queue:work --stop-when-empty --sleep=0 $options");
    }

    public function createFailedJobsTable(): void
    {
        $this->app['db']->connection()->getSchemaBuilder()->create('failed_jobs', function ($table): void {
            $table->id();
            $table->string('uuid')->unique();
            foreach (['connection', 'queue', 'payload', 'exception'] as $column) {
                $table->text($column);
            }
            $table->timestamp('failed_at')->useCurrent();
        });
    }

    public function createBatchesTable(): void
    {
        $this->app['db']->connection()->getSchemaBuilder()->create('job_batches', function ($table): void {
            $table->string('id')->primary();
            foreach (['name', 'failed_job_ids'] as $column) {
                $table->text($column);
            }
            $table->text('options')->nullable();
            foreach (['total_jobs', 'pending_jobs', 'failed_jobs', 'created_at'] as $column) {
                $table->integer($column);
            }
            foreach (['cancelled_at', 'finished_at'] as $column) {
                $table->integer($column)->nullable();
            }
        });
    }

    /** What the application has logged. */
    public function log(): string
    {
        return file_get_contents($this->app->storagePath() . '/logs/laravel.log');
    }

    public function queue(): RedstalkQueue
    {
        return $this->app['queue']->connection();
    }
}
