<?php

declare(strict_types=1);

namespace Redstalk;

/** What a put does if its key is taken. */
enum OnDuplicate: string
{
    /** It puts nothing and returns the job that has the key. The default. */
    case Keep = 'keep';
    /** It deletes the other job, even if it is reserved. */
    case Replace = 'replace';
    /** It puts nothing and throws a DuplicateException. */
    case Fail = 'fail';
}
