<?php

declare(strict_types=1);

// The jobs of the tests. Each writes what it does into Log::$lines.

namespace Redstalk\Tests\Laravel\Jobs;

use Illuminate\Bus\Batchable;
use Illuminate\Bus\Queueable;
use Illuminate\Contracts\Queue\ShouldBeUnique;
use Illuminate\Contracts\Queue\ShouldBeUniqueUntilProcessing;
use Illuminate\Contracts\Queue\ShouldQueue;
use Illuminate\Foundation\Bus\Dispatchable;
use Illuminate\Queue\Attributes\Delay;
use Illuminate\Queue\InteractsWithQueue;
use Redstalk\Laravel\UniqueOnServer;

final class Log
{
    /** @var list<string> */
    public static array $lines = [];

    /** @var ?\Closure(): void called by each job */
    public static ?\Closure $do = null;

    /** @return list<string> the lines since the last call */
    public static function take(): array
    {
        [$lines, self::$lines] = [self::$lines, []];

        return $lines;
    }
}

class Plain implements ShouldQueue
{
    use Dispatchable;
    use InteractsWithQueue;
    use Queueable;

    public function __construct(public readonly string $name = 'job')
    {
    }

    public function handle(): void
    {
        Log::$lines[] = "$this->name {$this->attempts()}";
        Log::$do === null || (Log::$do)($this);
    }

    public function failed(\Throwable $e): void
    {
        Log::$lines[] = "$this->name failed: {$e->getMessage()}";
    }
}

/** Names of queues. */
enum Name: string
{
    case Mails = 'mails';
}

enum Unit
{
    case other;
}

#[Delay(60)]
class Later extends Plain
{
}

/** Has a checkpoint for each of its rows. */
class Import extends Plain
{
    public function handle(): void
    {
        for ($row = $this->job->lastCheckpoint() ?? 0; $row < 4; $row++) {
            Log::$lines[] = "row $row, {$this->attempts()}";
            $this->job->checkpoint($row + 1);
            $this->job->touch("$row/4");
            Log::$do === null || (Log::$do)($this);
            if ($this->job->isStopping()) {
                $this->job->notFinished();

                return;
            }
        }
    }
}

class Member extends Plain
{
    use Batchable;
}

class Failing extends Plain
{
    public int $tries = 3;

    /** @return list<int> */
    public function backoff(): array
    {
        return [10, 50];
    }

    public function handle(): void
    {
        parent::handle();
        throw new \RuntimeException('no such user');
    }
}

class Until extends Plain
{
    public function retryUntil(): \DateTimeInterface
    {
        return new \DateTimeImmutable('+100 seconds');
    }
}

class Group extends Plain
{
    public function messageGroup(): string
    {
        return $this->name;
    }
}

class Unique extends Plain implements ShouldBeUnique
{
    use UniqueOnServer;

    public function uniqueId(): string
    {
        return $this->name;
    }
}

class UniqueByCache extends Plain implements ShouldBeUnique
{
    public function uniqueId(): string
    {
        return $this->name;
    }
}

class UniqueMember extends UniqueByCache
{
    use Batchable;
}

class UniqueMemberOnServer extends UniqueMember
{
    use UniqueOnServer;
}

class UniqueFor extends Unique
{
    public int $uniqueFor = 3;
}

#[\Illuminate\Queue\Attributes\UniqueFor(2)]
class UniqueForAttribute extends Unique
{
}

class UntilProcessing extends Plain implements ShouldBeUniqueUntilProcessing
{
}
