<?php
// Uses Laravel's own driver "beanstalkd" and its workers on the server at HOST PORT, and prints a transcript.
// Parts that restart the server, as transcript.php says, come last, and only if the first argument is "durable".

declare(strict_types=1);

[, $durability, , $port] = $argv;
require dirname(__DIR__) . '/transcript.php';

$folder = sys_get_temp_dir() . '/laravel-' . getmypid();
foreach (['bootstrap/cache', 'storage/framework/cache', 'views'] as $sub) {
    mkdir("$folder/$sub", recursive: true);
}
register_shutdown_function(fn () => exec('rm -rf ' . escapeshellarg($folder)));
putenv("LIFE_FOLDER=$folder");
putenv("LIFE_PORT=$port");
$app = require __DIR__ . '/app.php';
$app->make(Illuminate\Contracts\Console\Kernel::class)->bootstrap();
restore_error_handler();
restore_exception_handler();

function queue(string $connection = 'plain')
{
    global $app;
    return $app['queue']->connection($connection);
}

/** The names of the jobs that are ready, which are deleted. */
function take(): array
{
    for ($names = []; $job = queue()->pop(); $job->delete()) {
        $names[] = unserialize($job->payload()['data']['command'])->name;
    }
    return $names;
}

/** What the jobs have written since the last call of forget. */
function seenLines(): array
{
    global $folder;
    return is_file("$folder/seen") ? file("$folder/seen", FILE_IGNORE_NEW_LINES) : [];
}

function forget(): void
{
    global $folder;
    foreach (['seen', 'log'] as $name) {
        !is_file("$folder/$name") || unlink("$folder/$name");
    }
}

/** A process of queue:work. */
final class Worker
{
    private $process;
    private array $status;

    public function __construct(string $options, string $connection = 'plain')
    {
        global $folder;
        $command = [PHP_BINARY, __DIR__ . '/artisan.php', 'queue:work', $connection, ...explode(' ', $options)];
        $files = [['file', '/dev/null', 'r'], ['file', "$folder/output", 'a'], ['file', "$folder/output", 'a']];
        $this->process = proc_open($command, $files, $pipes);
        $this->status = proc_get_status($this->process);
    }

    public function runs(): bool
    {
        if ($this->status['running']) { // as the exit code can be had once
            $this->status = proc_get_status($this->process);
        }
        return $this->status['running'];
    }

    public function signal(int $signal): void
    {
        !$this->runs() || proc_terminate($this->process, $signal);
    }

    /** How it ends, within $seconds. */
    public function end(float $seconds): string
    {
        if (!await(fn () => !$this->runs(), $seconds)) {
            $this->signal(SIGKILL);
            return 'nothing';
        }
        return $this->status['signaled'] ? "signal {$this->status['termsig']}" : "code {$this->status['exitcode']}";
    }
}

/** Lets a worker do what is there, and prints what the jobs have written, and how it has ended. */
function work(string $what, string $options = ''): void
{
    forget();
    $end = (new Worker(trim("--stop-when-empty --sleep=0 $options")))->end(60);
    say($what, seenLines(), 'ends with', $end, 'left', queue()->size());
}

/** What the workers have logged, each once. */
function logged(): array
{
    global $folder;
    preg_match_all('/ERROR: (.*?) \{/', is_file("$folder/log") ? file_get_contents("$folder/log") : '', $errors);
    return array_values(array_unique(array_map('withoutNumbers', $errors[1])));
}

say('Laravel', Illuminate\Foundation\Application::VERSION, 'PHP', PHP_VERSION);

part('push and pop', function () {
    queue()->push(new Works('one'));
    say('size', queue()->size());
    foreach (['pendingSize', 'delayedSize', 'reservedSize', 'creationTimeOfOldestPendingJob'] as $method) {
        !method_exists(queue(), $method) || say($method, queue()->$method());
    }
    $job = queue()->pop();
    say('popped', get_class($job), $job->attempts(), $job->getQueue(), $job->resolveName(), $job->isDeleted(), 'size', queue()->size());
    $job->release(0);
    $job = queue()->pop();
    say('released', $job->attempts());
    $job->release(1);
    say('delayed', figure('stats-tube default', 'current-jobs-delayed'), queue()->pop() === null);
    $job = await(fn () => queue()->pop());
    say('after its delay', $job->attempts());
    $job->bury();
    say('buried', figure('stats-tube default', 'current-jobs-buried'), queue()->pop() === null, ask('use default', 'kick 1'));
    $job = queue()->pop();
    $job->delete();
    say('deleted', $job->isDeleted(), 'size', queue()->size());
    tries('a second delete', [$job, 'delete']);
});

part('later and bulk', function () {
    queue()->later(2, new Works('later'));
    queue()->later(new DateInterval('PT2S'), new Works('interval'));
    queue()->later(now()->addSeconds(2), new Works('date'));
    queue()->bulk([new Works('b1'), (new Works('b2'))->delay(2), new Works('b3')]);
    $now = take();
    sleep(2);
    usleep(200000);
    $then = take();
    sort($then); // one more second may begin between them
    say($now, 'then', $then);
    queue()->push(new Works('other'), '', 'other.queue_1');
    say('size of other', queue()->size('other.queue_1'));
    $job = queue()->pop('other.queue_1');
    say($job->getQueue());
    $job->delete();
    tries('the size of no tube', fn () => say('size', queue()->size('nowhere')));
});

part('raw bodies', function () {
    foreach (['no JSON', str_repeat("\r\n\0", 20000) . 'x'] as $body) {
        queue()->pushRaw($body, 'raw');
        $job = queue()->pop('raw');
        say(strlen($body), 'bytes', $job->getRawBody() === $body ? 'same' : 'differ');
        $job->delete();
    }
    tries('too big a body', fn () => queue()->pushRaw(str_repeat('x', 65536), 'raw'));
    say('afterwards', queue()->size('raw'));
});

part('worker', function () {
    foreach (range(1, 5) as $i) {
        queue()->push(new Works("job$i"));
    }
    work('five jobs');
    queue()->push(new Throws('throws'));
    work('three tries', '--tries=3');
    queue()->push(new Throws('backoff'));
    work('backoff', '--tries=2 --backoff=2');
    sleep(2);
    work('after it', '--tries=2');
    queue()->push(new Releases('releases'));
    work('releases', '--tries=5');
    queue()->push(new GivesUp('gives up'));
    work('gives up', '--tries=5');
});

part('a timeout', function () {
    queue()->push(new Works('slow', 5));
    foreach (['first', 'second', 'third'] as $which) {
        work($which, '--timeout=1 --tries=2');
    }
});

part('a killed worker', function () {
    forget();
    queue()->push(new Works('killed', 5));
    $worker = new Worker('--tries=3');
    await('seenLines');
    say('reserved', figure('stats-tube default', 'current-jobs-reserved'));
    $worker->signal(SIGKILL);
    say('ends with', $worker->end(5));
    $job = await(fn () => queue()->pop());
    say('again', $job->attempts());
    $job->delete();
});

part('the time to run', function () {
    queue('short')->push(new Works('expires'));
    $late = queue('short')->pop();
    usleep(2300000);
    queue('short')->size(); // beanstalkd may notice only at a command of the connection that has the job
    $job = await(fn () => queue()->pop());
    say('again', $job->attempts());
    tries('a late delete', [$late, 'delete']);
    $job->delete();
    queue('short')->push(new Works('soon'));
    $job = queue('short')->pop();
    usleep(1300000);
    tries('pop shortly before the end', fn () => say(queue('short')->pop() === null));
    tries('delete', [$job, 'delete']);
});

part('block_for', function () {
    $begun = microtime(true);
    say(queue('block')->pop() === null, abs(microtime(true) - $begun - 2) < 1);
    if (($pid = pcntl_fork()) === 0) {
        usleep(500000);
        ask("use default", "put 1 0 60 9\r\n{\"job\":1}");
        posix_kill(getmypid(), SIGKILL); // without the shutdown function
    }
    $job = await(fn () => queue('block')->pop());
    say('woken', $job->getRawBody());
    $job->delete();
    pcntl_waitpid($pid, $status);
});

part('two workers', function () {
    forget();
    foreach (range(1, 200) as $i) {
        queue()->push(new Works("job$i"));
    }
    foreach ([new Worker('--stop-when-empty --sleep=0'), new Worker('--stop-when-empty --sleep=0')] as $worker) {
        say('ends with', $worker->end(60));
    }
    say('done', count(seenLines()), 'different', count(array_unique(seenLines())), 'left', queue()->size());
});

if ($durability !== 'durable') {
    exit(0);
}

function queueIsEmpty(): bool
{
    $page = ask('stats-tube default');
    return $page === 'NOT_FOUND' || !preg_match('/^current-jobs-(ready|reserved|delayed): [^0]/m', $page);
}

/**
 * Restarts the server after a worker has begun its first job, and starts the worker again whenever it ends, as a
 * supervisor does, until $enough is true. How it ends is not printed: that depends on how soon it connects again.
 */
function restartBeside(string $connection, string $options, callable $enough): void
{
    $worker = new Worker($options, $connection);
    await('seenLines');
    usleep(500000);
    restart();
    await(function () use (&$worker, $options, $connection, $enough) {
        if (!$worker->runs()) {
            $worker = new Worker($options, $connection);
        }
        return $enough();
    });
    $worker->signal(SIGTERM);
    say('the worker ends with', $worker->end(30));
}

foreach (['politely', 'by force'] as $how) {
    part("restart $how, a worker waits", function () {
        forget();
        queue()->push(new Works('before'));
        restartBeside('block', '--tries=5 --sleep=0', function () {
            static $pushed = false;
            $pushed = $pushed || tries('push', fn () => queue()->push(new Works('after')));
            return count(seenLines()) >= 2;
        });
        say(seenLines(), 'left', take());
    });
}

foreach (['--tries=5 --sleep=0.2', '--sleep=0.2'] as $options) {
    foreach (['politely', 'by force'] as $how) {
        part("restart $how, a worker with $options runs a job", function () use ($options) {
            forget();
            queue()->push(new Works('running', 4));
            restartBeside('plain', $options, fn () => queueIsEmpty());
            say(seenLines(), 'logged', logged());
            for ($n = 1; $n <= 3 && !tries("take $n", fn () => say('left', take())); $n++);
        });
    }
}
