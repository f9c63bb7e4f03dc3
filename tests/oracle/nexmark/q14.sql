select
    auction,
    bidder,
    0.908 * price as price,
    case
        when
            extract(hour from date_time) >= 8 and
            extract(hour from date_time) <= 18
        then 'dayTime'
        when
            extract(hour from date_time) <= 6 or
            extract(hour from date_time) >= 20
        then 'nightTime'
        else 'otherTime'
    end as bidtimetype,
    date_time,
    length(extra) - length(replace(extra, 'c', '')) as c_counts
from bid
where 0.908 * price > 1000000 and 0.908 * price < 50000000
