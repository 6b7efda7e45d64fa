<?php

declare(strict_types=1);

namespace Redstalk;

use Redstalk\Internal\Command;
use Redstalk\Internal\Page;
use Redstalk\Internal\Text;

/** A set of jobs after which other jobs run. Nothing is sent before the first method; the first one creates the batch on the server. It needs batches. */
final class Batch
{
    public readonly string $name;

    public function __construct(private readonly Client $client, string $name)
    {
        $this->name = Text::tube($name);
    }

    /**
     * Puts a member.
     *
     * @throws Exception\BatchSealedException after seal
     */
    public function add(string $tube, string $body, PutOptions $options = new PutOptions()): Receipt
    {
        return $this->client->put($tube, $body, $options->with(batch: $this->name));
    }

    /** Puts a job that runs when the batch is sealed and all members are deleted. Once that is impossible it is buried. */
    public function after(string $tube, string $body, PutOptions $options = new PutOptions()): Receipt
    {
        return $this->client->put($tube, $body, $options->with(after: $this->name));
    }

    /** Puts a job that runs when the batch is sealed and all members have ended, however they did. */
    public function afterAll(string $tube, string $body, PutOptions $options = new PutOptions()): Receipt
    {
        return $this->client->put($tube, $body, $options->with(afterAll: $this->name));
    }

    /** Says that no more members come. The jobs after the batch do not run before. */
    public function seal(): void
    {
        $this->client->exec(new Command("seal-batch $this->name", needs: 'batches', repeat: true))->expect('seal-batch', 'SEALED');
    }

    /** @throws Exception\NotFoundException */
    public function stats(): BatchStats
    {
        $page = (string) $this->client->exec(Command::query("stats-batch $this->name", 'batches'))->expect('stats-batch', 'OK')->body;

        return new BatchStats(Page::values($page), Page::rows($page)[0]);
    }

    /**
     * Lists the members that exist, in no order.
     *
     * @return \Generator<JobStats>
     */
    public function members(): \Generator
    {
        $next = '';
        do {
            $reply = $this->client->exec(Command::query(rtrim("list-members $this->name 100 $next"), 'batches'));
            [$rows, $next] = Page::rows((string) $reply->expect('list-members', 'OK')->body);
            foreach ($rows as $row) {
                yield new JobStats($row);
            }
        } while ($next !== '');
    }

    /** Seals the batch and deletes its members that are not reserved. Returns how many. */
    public function cancel(): int
    {
        return (int) $this->client->exec(new Command("cancel-batch $this->name", needs: 'batches'))->expect('cancel-batch', 'CANCELLED')->args;
    }
}
