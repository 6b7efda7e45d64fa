<?php

declare(strict_types=1);

namespace Redstalk\Laravel;

use Illuminate\Console\Command;

/** Shows and changes policies of queues: artisan redstalk:policy mails retry:10s,1m dead:mails-failed */
final class PolicyCommand extends Command
{
    protected $signature = 'redstalk:policy
        {queue? : A queue or a pattern such as mails*; without, all policies are listed}
        {tags?* : Such as retry:10s,1m dead:mails-failed; without, the policy is shown}
        {--delete : Delete the policy}
        {--connection= : The connection in config/queue.php}';

    protected $description = 'Show or change the policies of queues of redstalk';

    public function handle(): int
    {
        $queue = $this->laravel['queue']->connection($this->option('connection'));
        if (!$queue instanceof RedstalkQueue) {
            $this->error('The connection does not use the driver redstalk.');

            return 1;
        }
        $inspector = $queue->inspector();
        $name = $this->argument('queue');
        if ($name !== null && ($this->option('delete') || $this->argument('tags') !== [])) {
            $inspector->setPolicy($name, $this->option('delete') ? [] : $this->tags());
        }
        foreach ($name === null ? $inspector->policies() : [$name] as $tube) {
            $policy = $inspector->policy($tube) ?? [];
            $tags = array_map(fn ($tag, $value) => "$tag:$value", array_keys($policy), $policy);
            $this->line(trim("$tube  " . implode(' ', $tags)));
        }

        return 0;
    }

    /** @return array<string, string> */
    private function tags(): array
    {
        $tags = [];
        foreach ($this->argument('tags') as $tag) {
            [$name, $value] = explode(':', $tag, 2) + [1 => ''];
            $tags[$name] = $value;
        }

        return $tags;
    }
}
