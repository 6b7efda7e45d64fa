package storetest

// cases are the tests of single rules: in case_*.go, by what they are about.
var cases = map[string]func(*rig){
	"ids":                 testIDs,
	"bodies":              testBodies,
	"ready order":         testReadyOrder,
	"several tubes":       testSeveralTubes,
	"delayed order":       testDelayedOrder,
	"buried order":        testBuriedOrder,
	"life of a job":       testMatrix,
	"release":             testRelease,
	"kick":                testKick,
	"long kick":           testLongKick,
	"pause":               testPause,
	"set-priority":        testSetPriority,
	"reschedule":          testReschedule,
	"TTR":                 testTTR,
	"touch":               testTouch,
	"deadline soon":       testSoon,
	"leave":               testLeave,
	"leave with much":     testLeaveWithMuch,
	"urgent":              testUrgent,
	"tube lifetime":       testTubeLifetime,
	"tube order":          testTubeOrder,
	"tube counters":       testTubeCounters,
	"totals":              testTotals,
	"hints":               testHints,
	"due":                 testDue,
	"batch order":         testBatchOrder,
	"kicked and released": testKickedAndReleased,
	"large batch":         testLargeBatch,
	"many connections":    testManyConnections,
	"after close":         testAfterClose,
	"unknown ids":         testUnknownIDs,
	"what survives":       testSurvival,
	"what a crash keeps":  testCrash,
}

// countsOn are the cases that look at counters which begin anew when a store is opened.
var countsOn = map[string]bool{"pause": true, "TTR": true, "tube counters": true, "totals": true}
