-- Keys of runs, attempts, segments and incidents occur once; an attempt is in one run at most.
select 'run' as source, run_id as id from run group by all having count(*) > 1
union all
select 'attempt' as source, attempt_id as id from attempt group by all having count(*) > 1
union all
select 'segment' as source, segment_id as id from segment group by all having count(*) > 1
union all
select 'incident' as source, incident_id as id from incident group by all having count(*) > 1
union all
select 'run_attempt' as source, attempt_id as id from run_attempt group by attempt_id
having count(*) > 1
order by all
