-- What an incident cost is what its segments lost.
select
    i.incident_id, i.total_s,
    sum(case when s.category = 'productive' then 1 - s.performance_ratio else 1 end * s.duration_s)
        as segments_s
from incident as i
left join segment as s using (incident_id)
group by i.incident_id, i.total_s
having abs(i.total_s - coalesce(segments_s, 0)) > 1e-6
order by i.incident_id
