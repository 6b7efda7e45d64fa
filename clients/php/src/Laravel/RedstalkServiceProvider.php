<?php

declare(strict_types=1);

namespace Redstalk\Laravel;

use Illuminate\Queue\Events\JobExceptionOccurred;
use Illuminate\Support\ServiceProvider;

/** Adds the queue driver "redstalk" and the command redstalk:policy. Laravel discovers it. */
final class RedstalkServiceProvider extends ServiceProvider
{
    public function register(): void
    {
        $this->callAfterResolving('queue', function ($manager): void {
            $manager->addConnector('redstalk', fn () => new RedstalkConnector($this->app->bound('log') ? $this->app->make('log') : null));
        });
        $this->callAfterResolving('events', function ($events): void {
            // The worker releases the job after this event.
            $events->listen(JobExceptionOccurred::class, function (JobExceptionOccurred $event): void {
                if ($event->job instanceof RedstalkJob) {
                    $event->job->setReason($event->exception);
                }
            });
        });
        $this->commands([PolicyCommand::class]);
    }
}
