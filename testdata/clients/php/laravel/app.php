<?php
// A Laravel application in the folder LIFE_FOLDER, with a queue on the port LIFE_PORT, and its jobs,
// which write into the file "seen" there what happens to them.

declare(strict_types=1);

error_reporting(E_ALL & ~E_DEPRECATED); // of old versions on a new PHP
require 'Pheanstalk/autoload.php';
require 'Illuminate/autoload.php';

use Illuminate\Bus\Queueable;
use Illuminate\Contracts\Queue\ShouldQueue;
use Illuminate\Queue\InteractsWithQueue;

function seen(string $line): void
{
    file_put_contents(getenv('LIFE_FOLDER') . '/seen', "$line\n", FILE_APPEND | LOCK_EX);
}

class Works implements ShouldQueue
{
    use InteractsWithQueue;
    use Queueable;

    public function __construct(public string $name, public float $seconds = 0)
    {
    }

    public function handle()
    {
        seen("$this->name {$this->attempts()}");
        for ($end = microtime(true) + $this->seconds; microtime(true) < $end;) { // as signals end a sleep
            usleep(50000);
        }
        $this->seconds == 0 || seen("$this->name done");
    }

    public function failed()
    {
        seen("$this->name failed");
    }
}

class Throws extends Works
{
    public function handle()
    {
        parent::handle();
        throw new RuntimeException('thrown');
    }
}

class GivesUp extends Works
{
    public function handle()
    {
        parent::handle();
        $this->fail(new RuntimeException('given up'));
    }
}

class Releases extends Works
{
    public function handle()
    {
        parent::handle();
        $this->attempts() < 3 && $this->release(0);
    }
}

$_ENV['APP_CONFIG_CACHE'] = __DIR__ . '/config.php';
$app = new Illuminate\Foundation\Application(getenv('LIFE_FOLDER'));
if (method_exists($app, 'dontMergeFrameworkConfiguration')) {
    $app->dontMergeFrameworkConfiguration();
}
$app->singleton(Illuminate\Contracts\Console\Kernel::class, Illuminate\Foundation\Console\Kernel::class);
$app->singleton(Illuminate\Contracts\Debug\ExceptionHandler::class, Illuminate\Foundation\Exceptions\Handler::class);

return $app;
