<?php

declare(strict_types=1);

namespace Redstalk;

use Redstalk\Exception\NotFoundException;
use Redstalk\Internal\Command;
use Redstalk\Internal\Page;
use Redstalk\Internal\Reply;
use Redstalk\Internal\Text;

/**
 * Shows and changes tubes, jobs, policies and groups. States are ready, delayed, reserved and buried; times are in seconds.
 *
 * What does not exist is a NotFoundException, except where a result is nullable. Methods that change something throw an
 * UnknownOutcomeException if the reply is lost, unless they do the same when they are repeated.
 */
final class Inspector
{
    public function __construct(private readonly Client $client)
    {
    }

    /** @return array<string, mixed> the page of stats */
    public function server(): array
    {
        return Page::values($this->page('stats'));
    }

    /** @return list<string> the names of all tubes */
    public function tubes(): array
    {
        return Page::names($this->page('list-tubes'));
    }

    public function tube(string $tube): TubeStats
    {
        return new TubeStats(Page::values($this->page('stats-tube ' . Text::tube($tube))));
    }

    public function job(int $id): JobStats
    {
        return new JobStats(Page::values($this->page("stats-job $id")));
    }

    /**
     * Lists the jobs of a tube in delivery order. It needs list-jobs.
     *
     * @return \Generator<JobStats>
     */
    public function jobs(string $tube, string $state = 'ready'): \Generator
    {
        foreach ($this->rows('list-jobs ' . Text::tube($tube) . " $state", 'list-jobs') as $row) {
            yield new JobStats($row + ['tube' => $tube, 'state' => $state]);
        }
    }

    /** Returns a job without reserving it. It can be deleted. */
    public function peek(int $id): ?Job
    {
        return $this->found(Command::query("peek $id"));
    }

    /** Returns the next job of a tube that is ready. */
    public function peekReady(string $tube): ?Job
    {
        return $this->found(Command::query('peek-ready', tube: Text::tube($tube)));
    }

    /** Returns the next job of a tube that is delayed. */
    public function peekDelayed(string $tube): ?Job
    {
        return $this->found(Command::query('peek-delayed', tube: Text::tube($tube)));
    }

    /** Returns the next job of a tube that is buried. */
    public function peekBuried(string $tube): ?Job
    {
        return $this->found(Command::query('peek-buried', tube: Text::tube($tube)));
    }

    /** Returns the job of a tube that has a key. */
    public function find(string $tube, string $key): ?Job
    {
        return $this->found(Command::query('find ' . Text::tube($tube) . ' ' . Text::value($key), 'put-tags'));
    }

    /** Deletes a job that is not reserved by somebody else. */
    public function delete(int $id): void
    {
        $this->do(new Command("delete $id"), 'DELETED');
    }

    /**
     * Deletes jobs, and returns how many there were. It needs batch.
     *
     * @param list<int> $ids
     */
    public function deleteMany(array $ids): int
    {
        $deleted = 0;
        foreach (array_chunk($ids, 500) as $some) {
            $deleted += $this->count(new Command('delete-batch ' . implode(' ', $some), needs: 'batch'), 'DELETED_BATCH');
        }

        return $deleted;
    }

    /** Deletes the job of a tube that has a key, even if it is reserved. */
    public function deleteKey(string $tube, string $key): void
    {
        $this->do(new Command('delete-key ' . Text::tube($tube) . ' ' . Text::value($key), needs: 'put-tags'), 'DELETED');
    }

    /** Makes up to $count buried jobs of a tube ready, or delayed ones if none is buried. Returns how many. They lose their checkpoints unless these are kept. */
    public function kick(string $tube, int $count, bool $keepCheckpoint = false): int
    {
        return $this->count($this->again("kick $count", $keepCheckpoint, tube: Text::tube($tube)), 'KICKED');
    }

    /** Makes a buried or delayed job ready. It loses its checkpoint unless that is kept. */
    public function kickJob(int $id, bool $keepCheckpoint = false): void
    {
        $this->do($this->again("kick-job $id", $keepCheckpoint), 'KICKED');
    }

    /** Makes reserves from a tube wait so long; 0 ends that. */
    public function pause(string $tube, int $seconds): void
    {
        $this->do(new Command('pause-tube ' . Text::tube($tube) . " $seconds", repeat: true), 'PAUSED');
    }

    /** Sends a dead letter back to its tube, with a new id, or kicks a buried job. It loses its checkpoint unless that is kept. */
    public function replay(int $id, bool $keepCheckpoint = false): void
    {
        $this->do($this->again("replay-job $id", $keepCheckpoint, 'replay'), 'REPLAYED');
    }

    /** Makes a ready or delayed job due after some time. */
    public function reschedule(int $id, float $delay): void
    {
        $this->do(new Command("reschedule $id " . Text::duration($delay), needs: 'put-tags'), 'RESCHEDULED');
    }

    /** Changes the priority of a job that is not reserved. */
    public function setPriority(int $id, int $priority): void
    {
        $this->do(new Command("set-priority $id $priority", needs: 'put-tags', repeat: true), 'UPDATED');
    }

    /** Deletes the ready, delayed and buried jobs of a tube, or those in a state. Returns how many. */
    public function flush(string $tube, string $state = ''): int
    {
        return $this->count(new Command(rtrim('flush-tube ' . Text::tube($tube) . " $state"), needs: 'flush'), 'FLUSHED');
    }

    /** Moves the first jobs in a state other than reserved to another tube. Returns how many. */
    public function move(string $from, string $state, string $to, int $count): int
    {
        return $this->count(new Command('move-jobs ' . Text::tube($from) . " $state " . Text::tube($to) . " $count", needs: 'move'), 'MOVED');
    }

    /** @return ?array<string, mixed> the tags of the policy of a tube or of PREFIX*; null if it has none */
    public function policy(string $tube): ?array
    {
        return $this->optionalValues("get-policy $tube", 'policy');
    }

    /**
     * Sets the policy of a tube or of PREFIX*, such as ['retry' => '10s,1m', 'dead' => 'mails-failed']; without tags deletes it.
     *
     * @param array<string, string|int> $tags
     */
    public function setPolicy(string $tube, array $tags): void
    {
        $this->do(new Command("set-policy $tube" . Text::tags($tags), needs: 'policy', repeat: true), 'SET');
    }

    /** @return list<string> the tubes and patterns that have a policy */
    public function policies(): array
    {
        return Page::names($this->page('list-policies', 'policy'));
    }

    /**
     * Lists the groups of a tube that have a job or a setting: name, ready, delayed, reserved, buried, held, …
     *
     * @return \Generator<array<string, mixed>>
     */
    public function groups(string $tube): \Generator
    {
        return $this->rows('list-groups ' . Text::tube($tube), 'groups');
    }

    /** @return ?array<string, mixed> the counts of a group and the limits that apply */
    public function group(string $tube, string $group): ?array
    {
        return $this->optionalValues('stats-group ' . Text::tube($tube) . ' ' . Text::quote($group), 'groups');
    }

    /**
     * Sets limits of one group, such as ['concurrency' => 5, 'weight' => 3]; without tags deletes them.
     *
     * @param array<string, string|int> $tags
     */
    public function setGroup(string $tube, string $group, array $tags): void
    {
        $line = 'set-group ' . Text::tube($tube) . ' ' . Text::quote($group) . Text::tags($tags);
        $this->do(new Command($line, needs: 'groups', repeat: true), 'SET');
    }

    /** @return ?array<string, mixed> what setGroup has set */
    public function groupSettings(string $tube, string $group): ?array
    {
        return $this->optionalValues('get-group ' . Text::tube($tube) . ' ' . Text::quote($group), 'groups');
    }

    /** Makes the jobs of a group wait so long; 0 ends that. */
    public function pauseGroup(string $tube, string $group, int $seconds): void
    {
        $line = 'pause-group ' . Text::tube($tube) . ' ' . Text::quote($group) . " $seconds";
        $this->do(new Command($line, needs: 'groups', repeat: true), 'PAUSED');
    }

    /** Deletes the ready, delayed and buried jobs of a group. Returns how many. */
    public function flushGroup(string $tube, string $group): int
    {
        return $this->count(new Command('flush-group ' . Text::tube($tube) . ' ' . Text::quote($group), needs: 'groups'), 'FLUSHED');
    }

    /**
     * Lists the batches by name. It needs batches.
     *
     * @return \Generator<BatchStats>
     */
    public function batches(): \Generator
    {
        foreach ($this->rows('list-batches', 'batches') as $row) {
            yield new BatchStats($row);
        }
    }

    /**
     * Lists the connections of the server, or of all that share a Redis.
     *
     * @return \Generator<array<string, mixed>>
     */
    public function clients(): \Generator
    {
        return $this->rows('list-clients', 'clients');
    }

    /** Makes the server refuse puts, or accept them again. With several servers it is not defined which one. */
    public function drain(bool $on = true): void
    {
        $this->do(new Command($on ? 'drain' : 'undrain', needs: 'drain', repeat: true), $on ? 'DRAINING' : 'NOT_DRAINING');
    }

    private function again(string $line, bool $keepCheckpoint, string $needs = '', string $tube = ''): Command
    {
        return new Command($keepCheckpoint ? "$line keep-checkpoint" : $line, tube: $tube, needs: $keepCheckpoint ? 'checkpoint' : $needs);
    }

    private function do(Command $command, string $word): Reply
    {
        return $this->client->exec($command)->expect($command->verb(), $word);
    }

    private function count(Command $command, string $word): int
    {
        return (int) $this->do($command, $word)->args;
    }

    private function page(string $line, string $needs = ''): string
    {
        return (string) $this->do(Command::query($line, $needs), 'OK')->body;
    }

    /** @return ?array<string, mixed> */
    private function optionalValues(string $line, string $needs): ?array
    {
        try {
            return Page::values($this->page($line, $needs));
        } catch (NotFoundException) {
            return null;
        }
    }

    /** @return \Generator<array<string, mixed>> the rows of all pages */
    private function rows(string $line, string $needs): \Generator
    {
        $next = '';
        do {
            [$rows, $next] = Page::rows($this->page(rtrim("$line 100 $next"), $needs));
            yield from $rows;
        } while ($next !== '');
    }

    private function found(Command $query): ?Job
    {
        $reply = $this->client->exec($query);
        if ($reply->word === 'NOT_FOUND') {
            return null;
        }
        $job = $reply->expect($query->verb(), 'FOUND')->jobs[0];

        return new Job($this->client, $job['id'], $job['body']);
    }
}
