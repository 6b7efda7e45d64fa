<?php
// Exercises the server at HOST PORT with pheanstalk 4. Exits with 0 if everything is
// correct. Prints "restart" to request that the server is stopped and started again, and
// waits for a line that says that this was done.

declare(strict_types=1);

require 'Pheanstalk/autoload.php';

use Pheanstalk\Exception\DeadlineSoonException;
use Pheanstalk\Exception\JobNotFoundException;
use Pheanstalk\Exception\JobTooBigException;
use Pheanstalk\Exception\ServerException;
use Pheanstalk\JobId;
use Pheanstalk\Pheanstalk;
use Pheanstalk\SocketFactory;

const LEDGER = 500; // how many jobs go from two producers to two consumers

function check(bool $is, string $what): void
{
    if (!$is) {
        fwrite(STDERR, "FAILED: $what\n" . (new Exception())->getTraceAsString() . "\n");
        exit(1);
    }
}

function same($want, $got, string $what): void
{
    check($want === $got, "$what is " . var_export($got, true) . ', want ' . var_export($want, true));
}

function fails(string $class, string $what, callable $do): void
{
    try {
        $do();
    } catch (Exception $e) {
        same($class, get_class($e), "$what (" . $e->getMessage() . ')');
        return;
    }
    check(false, "$what succeeded");
}

/** Checks how long something took since $begun: late is allowed, early is not. */
function within(float $begun, float $least, float $most, string $what): void
{
    $took = microtime(true) - $begun;
    check($took >= $least && $took <= $most, "$what took $took s, want $least to $most");
}

/** A connection that uses and watches one tube. $kind is how pheanstalk shall connect. */
function queue(string $tube, int $kind = SocketFactory::AUTODETECT): Pheanstalk
{
    global $argv;
    $p = Pheanstalk::createWithFactory(new SocketFactory($argv[1], (int) $argv[2], 10, $kind));
    return $p->useTube($tube)->watchOnly($tube);
}

function reserved(Pheanstalk $p, int $id, string $body): JobId
{
    $job = $p->reserveWithTimeout(5);
    check($job !== null, "no job came, want job $id");
    same($id, $job->getId(), 'the reserved job');
    same($body, $job->getData(), 'its body');
    return new JobId($id);
}

/** Checks pairs of the page of a job. */
function job(Pheanstalk $p, JobId $job, array $pairs): void
{
    $page = $p->statsJob($job);
    foreach ($pairs as $key => $want) {
        same((string) $want, $page[$key], "$key of job " . $job->getId());
    }
}

function life(): void
{
    $p = queue('life');
    same('life', $p->listTubeUsed(true), 'the tube used');
    same(['life'], $p->listTubesWatched(true), 'the tubes watched');
    $id = $p->put('a life', 7, 0, 60)->getId();
    $job = new JobId($id);
    job($p, $job, ['id' => $id, 'tube' => 'life', 'state' => 'ready', 'pri' => 7, 'delay' => 0, 'ttr' => 60]);
    same('a life', $p->peek($job)->getData(), 'peek');
    same($id, $p->peekReady()->getId(), 'peek-ready');
    same(null, $p->peekDelayed(), 'peek-delayed');
    same(null, $p->peekBuried(), 'peek-buried');

    reserved($p, $id, 'a life');
    job($p, $job, ['state' => 'reserved']);
    same(null, $p->peekReady(), 'peek-ready of a reserved job');
    usleep(1100000);
    check($p->statsJob($job)['time-left'] <= 58, 'the time to run does not run');
    $p->touch($job);
    check($p->statsJob($job)['time-left'] >= 59, 'touch has not touched');

    $begun = microtime(true);
    $p->release($job, 3, 1);
    job($p, $job, ['state' => 'delayed', 'pri' => 3, 'delay' => 1]);
    same($id, $p->peekDelayed()->getId(), 'peek-delayed');
    reserved($p, $id, 'a life');
    within($begun, 1, 3, 'the delay');
    $p->release($job, 4);
    job($p, $job, ['state' => 'ready', 'pri' => 4]);

    reserved($p, $id, 'a life');
    $p->bury($job, 5);
    job($p, $job, ['state' => 'buried', 'pri' => 5]);
    same($id, $p->peekBuried()->getId(), 'peek-buried');
    same(1, $p->kick(10), 'kick');
    same(0, $p->kick(10), 'kick of nothing');
    reserved($p, $id, 'a life');
    $p->bury($job, 5);
    $p->kickJob($job);
    job($p, $job, ['state' => 'ready']);
    reserved($p, $id, 'a life');
    job($p, $job, ['reserves' => 5, 'releases' => 2, 'buries' => 2, 'kicks' => 2, 'timeouts' => 0]);
    $p->delete($job);
    gone($p, $job);
}

/** Checks that every command about a job reports that there is none. */
function gone(Pheanstalk $p, JobId $job): void
{
    foreach (['delete', 'release', 'bury', 'touch', 'kickJob', 'peek'] as $do) {
        fails(JobNotFoundException::class, $do, function () use ($p, $job, $do) {
            $p->$do($job);
        });
    }
    fails(ServerException::class, 'stats-job', function () use ($p, $job) {
        $p->statsJob($job);
    });
}

/** Only the holder of a job may change it, and releases it when it disconnects. */
function holders(): void
{
    $holder = queue('holders');
    $other = queue('holders');
    $id = $holder->put('mine')->getId();
    $job = reserved($holder, $id, 'mine');
    foreach (['delete', 'release', 'bury', 'touch'] as $do) {
        fails(JobNotFoundException::class, "$do by another", function () use ($other, $job, $do) {
            $other->$do($job);
        });
    }
    same('mine', $other->peek($job)->getData(), 'peek by another');
    unset($holder); // closes
    reserved($other, $id, 'mine');
    job($other, $job, ['reserves' => 2, 'timeouts' => 0, 'releases' => 0]);
    $other->delete($job);
}

/** The smallest priority first, of all tubes that are watched; among equals the first that was put. */
function order(): void
{
    $p = queue('order-1');
    $nine = $p->put('9', 9);
    $p->useTube('order-2');
    $first = $p->put('5', 5);
    $second = $p->put('5', 5);
    $least = $p->useTube('order-1')->put('1', 1);
    $p->watch('order-2');
    foreach ([[$least, '1'], [$first, '5']] as [$want, $body]) {
        reserved($p, $want->getId(), $body);
        $p->delete($want);
    }
    $p->ignore('order-2');
    fails(ServerException::class, 'ignoring the last tube', function () use ($p) {
        $p->ignore('order-1');
    });
    reserved($p, $nine->getId(), '9');
    same(null, $p->reserveWithTimeout(0), 'a job of an ignored tube');
    $p->delete($nine);
    $p->delete($second);
}

function pause(): void
{
    $p = queue('paused');
    $job = $p->put('later');
    $begun = microtime(true);
    $p->pauseTube('paused', 2);
    same('2', $p->statsTube('paused')['pause'], 'pause');
    same(null, $p->reserveWithTimeout(0), 'a job of a paused tube');
    reserved($p, $job->getId(), 'later');
    within($begun, 2, 4, 'the pause');
    $p->release($job);
    $begun = microtime(true);
    $p->pauseTube('paused', 100);
    same(null, $p->reserveWithTimeout(0), 'a job of a paused tube');
    $p->resumeTube('paused');
    reserved($p, $job->getId(), 'later');
    within($begun, 0, 2, 'resuming');
    $p->delete($job);
    fails(ServerException::class, 'pause of no tube', function () use ($p) {
        $p->pauseTube('nowhere', 1);
    });
}

function statistics(): void
{
    $p = queue('figures');
    $before = $p->stats();
    $ready = $p->put('x', 10);
    $buried = $p->put('y', 1);
    reserved($p, $buried->getId(), 'y');
    $p->bury($buried);
    $after = $p->stats();
    foreach ([
        'cmd-put' => 2, 'cmd-bury' => 1, 'cmd-stats' => 1, 'total-jobs' => 2, 'current-jobs-ready' => 1,
        'current-jobs-urgent' => 1, 'current-jobs-buried' => 1, 'current-jobs-reserved' => 0,
    ] as $key => $more) {
        same($more, (int) $after[$key] - (int) $before[$key], "more $key");
    }
    same('65535', $after['max-job-size'], 'max-job-size');
    same('false', $after['draining'], 'draining');
    check((int) $after['current-connections'] >= 1 && $after['version'] !== '', 'stats');
    $page = $p->statsTube('figures');
    foreach ([
        'name' => 'figures', 'current-jobs-ready' => '1', 'current-jobs-buried' => '1', 'total-jobs' => '2',
        'current-using' => '1', 'current-watching' => '1', 'current-waiting' => '0', 'cmd-delete' => '0',
    ] as $key => $want) {
        same($want, $page[$key], "$key of the tube");
    }
    $tubes = $p->listTubes();
    sort($tubes);
    same(['default', 'figures'], $tubes, 'list-tubes');
    $p->delete($ready);
    $p->delete($buried);
    same('2', $p->statsTube('figures')['cmd-delete'], 'cmd-delete of the tube');
    fails(ServerException::class, 'stats-tube of no tube', function () use ($p) {
        $p->statsTube('nowhere');
    });
}

function bodies(): void
{
    mt_srand(1);
    $every = implode('', array_map('chr', range(0, 255)));
    $largest = '';
    while (strlen($largest) < 65535) {
        $largest .= chr(mt_rand(0, 255));
    }
    foreach ([SocketFactory::SOCKET, SocketFactory::STREAM, SocketFactory::FSOCKOPEN] as $kind) {
        $p = queue('bodies', $kind);
        foreach ([$every, '', "\r\n", "a\r\ndelete 1\r\n\r\n", "\0", $largest] as $body) {
            $job = $p->put($body);
            check($p->peek($job)->getData() === $body, "peek: another body (socket $kind)");
            check($p->reserve()->getData() === $body, "reserve: another body (socket $kind)");
            $p->delete($job);
        }
        fails(JobTooBigException::class, 'put of 65536 bytes', function () use ($p, $largest) {
            $p->put($largest . 'x');
        });
    }
}

function waiting(): void
{
    $p = queue('waiting');
    $other = queue('waiting');
    $begun = microtime(true);
    same(null, $p->reserveWithTimeout(0), 'a job');
    within($begun, 0, 0.9, 'no timeout');
    $begun = microtime(true);
    same(null, $p->reserveWithTimeout(1), 'a job');
    within($begun, 1, 2, 'a timeout of 1 s');

    $begun = microtime(true);
    $child = child(function () {
        usleep(300000);
        queue('waiting')->put('comes late', 0, 0, 3);
    });
    $job = $p->reserve();
    $reserved = microtime(true);
    same('comes late', $job->getData(), 'what came');
    within($begun, 0.3, 2, 'waiting for it');
    joined($child);

    // Two seconds after the reservation there is one left.
    fails(DeadlineSoonException::class, 'reserve', function () use ($p) {
        $p->reserve();
    });
    within($reserved, 1.7, 3, 'DEADLINE_SOON');
    fails(DeadlineSoonException::class, 'reserve with a timeout', function () use ($p) {
        $p->reserveWithTimeout(0);
    });
    $p->touch($job);
    same(null, $p->reserveWithTimeout(0), 'a job after touch');
    $p->delete($job);

    $job = $p->put('too slow', 0, 0, 1);
    reserved($p, $job->getId(), 'too slow');
    usleep(1300000);
    $p->listTubes(); // beanstalkd may notice only now
    reserved($other, $job->getId(), 'too slow');
    job($other, new JobId($job->getId()), ['reserves' => 2, 'timeouts' => 1]);
    fails(JobNotFoundException::class, 'delete by the late holder', function () use ($p, $job) {
        $p->delete($job);
    });
    $other->delete($job);
}

/** Requests a restart of the server. */
function restart(): void
{
    echo "restart\n";
    check(fgets(STDIN) !== false, 'nobody has restarted the server');
}

/** Pheanstalk reconnects by itself when the connection is closed, and watches the same tubes again. */
function restarts(): void
{
    survive(SocketFactory::SOCKET);
    survive(SocketFactory::STREAM);
}

function survive(int $kind): void
{
    $p = queue('survivors', $kind);
    $buried = $p->put('buried', 1);
    reserved($p, $buried->getId(), 'buried');
    $p->bury($buried, 6);
    $held = $p->put('held', 1);
    reserved($p, $held->getId(), 'held');
    $ready = $p->put("ready\r\n\0", 2);
    $delayed = $p->put('delayed', 3, 100, 60);
    restart();

    same('survivors', $p->listTubeUsed(true), 'the tube used');
    same(['default', 'survivors'], $p->listTubesWatched(true), 'the tubes watched'); // it forgets what it ignored
    job($p, new JobId($buried->getId()), ['state' => 'buried', 'pri' => 6, 'tube' => 'survivors']);
    job($p, new JobId($delayed->getId()), ['state' => 'delayed', 'pri' => 3, 'delay' => 100, 'ttr' => 60]);
    job($p, new JobId($ready->getId()), ['state' => 'ready', 'pri' => 2]);
    $bodies = [];
    for ($i = 0; $i < 2; $i++) { // a killed instance's reservations may take a while
        $job = $p->reserveWithTimeout(15);
        check($job !== null, 'a job is missing');
        $bodies[$job->getId()] = $job->getData();
        $p->delete($job);
    }
    ksort($bodies);
    same([$held->getId() => 'held', $ready->getId() => "ready\r\n\0"], $bodies, 'the jobs');
    $p->kickJob($delayed);
    reserved($p, $delayed->getId(), 'delayed');
    $p->delete($delayed);
    same(1, $p->kick(1), 'kick');
    reserved($p, $buried->getId(), 'buried');
    $p->delete($buried);
    $job = $p->put('new');
    check($job->getId() > $delayed->getId(), 'an id was given twice');
    $p->delete($job);
}

/** Runs something in a process of its own, which exits with 0 if all was well. */
function child(callable $run): int
{
    $pid = pcntl_fork();
    check($pid >= 0, 'fork');
    if ($pid === 0) {
        $run();
        exit(0);
    }
    return $pid;
}

function joined(int $pid): void
{
    pcntl_waitpid($pid, $status);
    same(0, $status, 'the end of a child');
}

function ledger(): void
{
    $producers = $consumers = [];
    $names = tempnam(sys_get_temp_dir(), 'ledger');
    $produced = tempnam(sys_get_temp_dir(), 'ledger'); // removed when all is produced
    foreach ([0, 1] as $part) {
        $producers[] = child(function () use ($part) {
            produce($part);
        });
        $consumers[] = child(function () use ($names, $produced) {
            consume($names, $produced);
        });
    }
    array_map('joined', $producers);
    unlink($produced);
    array_map('joined', $consumers);
    $times = array_count_values(file($names, FILE_IGNORE_NEW_LINES));
    unlink($names);
    for ($n = 0; $n < LEDGER; $n++) {
        same(1, $times[$n] ?? 0, "how often job $n was done");
    }
    same(LEDGER, count($times), 'how many jobs were done');
}

function produce(int $first): void
{
    $p = queue('ledger');
    for ($n = $first; $n < LEDGER; $n += 2) {
        $p->put((string) $n, $n % 7, $n % 100 === 50 ? 1 : 0, 60);
    }
}

/** Records the names of finished jobs, until there are no more. It releases every fiftieth job once. */
function consume(string $names, string $produced): void
{
    $p = queue('ledger');
    for (;;) {
        clearstatcache();
        $last = !file_exists($produced);
        $job = $p->reserveWithTimeout(3);
        if ($job === null && $last) {
            return;
        }
        if ($job === null) {
            continue;
        }
        $n = (int) $job->getData();
        if ($n % 50 === 7 && $p->statsJob($job)['releases'] === '0') {
            $p->release($job);
            continue;
        }
        $p->delete($job);
        file_put_contents($names, "$n\n", FILE_APPEND | LOCK_EX);
    }
}

check($argc === 3, 'usage: life.php HOST PORT');
// The parts up to waiting measure seconds.
foreach (['life', 'pause', 'waiting', 'holders', 'order', 'statistics', 'bodies', 'restarts', 'ledger'] as $part) {
    $part();
    echo "ok $part\n";
}
