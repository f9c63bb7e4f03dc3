select
    p.name, p.city, p.state, a.id
from
    auction as a inner join person as p on a.seller = p.id
where
    a.category = 10 and (p.state = 'OR' or p.state = 'ID' or p.state = 'CA')
